// The text format of Prometheus, beside prometheus-cpp's own writer.
#include "services/metrics/scrape.h"

#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "services/metrics/histogram.h"

namespace plimsoll::services {
namespace {

constexpr Metric kCounter = {"done_total", MetricType::kCounter, "model, way",
                             "What was done."};
constexpr Metric kGauge = {"ready", MetricType::kGauge, "", "Whether."};
constexpr Metric kTimes = {"time_seconds", MetricType::kHistogram, "model",
                           "How long."};
constexpr Metric kUnused = {"unused", MetricType::kGauge, "", "Nothing."};
constexpr std::array kAll = {&kCounter, &kGauge, &kTimes, &kUnused};
constexpr std::array kBounds = {0.001, 0.25, 2.5, 1e9};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Histogram::Counts SomeTimes() {
  Histogram histogram(kBounds);
  for (const double value : {0.0005, 0.1, 0.1, 3.0, 1e10}) {
    histogram.Observe(value);
  }
  return histogram.Read();
}

std::string GaugeLine(double value) {
  Scrape scrape(kAll);
  scrape.Add(kGauge, {}, value);
  const std::string text = scrape.Text();
  const size_t begin = text.find("\nready ") + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Returns `counts` in the form of prometheus-cpp.
prometheus::ClientMetric::Histogram Theirs(const Histogram::Counts& counts) {
  prometheus::ClientMetric::Histogram theirs;
  for (size_t i = 0; i <= counts.bounds.size(); ++i) {
    theirs.bucket.push_back({.cumulative_count = counts.cumulative[i],
                             .upper_bound = i < counts.bounds.size()
                                                ? counts.bounds[i]
                                                : kInfinity});
  }
  theirs.sample_count = counts.total();
  theirs.sample_sum = counts.sum;
  return theirs;
}

// What a text says of each series, whatever the order of lines and the digits.
std::map<std::string, double> Values(const std::string& text) {
  std::map<std::string, double> values;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    double& value = values[std::string(line.substr(0, space))];
    EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
  }
  return values;
}

// The lines of a metric's values.
std::string LinesOf(const Metric& metric, const std::string& text) {
  const std::string head = absl::StrCat("# TYPE ", metric.name, " ");
  const size_t begin = text.find('\n', text.find(head)) + 1;
  return text.substr(begin, text.find("# HELP ", begin) - begin);
}

TEST(ScrapeTest, WritesWhatPrometheusReads) {
  Scrape scrape(kAll);
  scrape.Add(kTimes, {{"model", "m"}}, SomeTimes());
  scrape.Add(kCounter, {{"model", "m"}, {"way", "w"}}, int64_t{1'000'000});
  scrape.Add(kGauge, {}, 0.1);
  EXPECT_EQ(scrape.Text(),
            R"(# HELP done_total What was done.
# TYPE done_total counter
done_total{model="m",way="w"} 1000000
# HELP ready Whether.
# TYPE ready gauge
ready 0.1
# HELP time_seconds How long.
# TYPE time_seconds histogram
time_seconds_bucket{model="m",le="0.001"} 1
time_seconds_bucket{model="m",le="0.25"} 3
time_seconds_bucket{model="m",le="2.5"} 3
time_seconds_bucket{model="m",le="1000000000"} 4
time_seconds_bucket{model="m",le="+Inf"} 5
time_seconds_sum{model="m"} 10000000003.2005
time_seconds_count{model="m"} 5
# HELP unused Nothing.
# TYPE unused gauge
)");
}

TEST(ScrapeTest, SaysTheSameAsPrometheusCpp) {
  const std::string model = "a\"b\\c\nd";
  prometheus::MetricFamily times{.name = kTimes.name,
                                 .help = kTimes.help,
                                 .type = prometheus::MetricType::Histogram,
                                 .metric = {}};
  times.metric.emplace_back().label = {{"model", model}};
  times.metric.back().histogram = Theirs(SomeTimes());
  prometheus::MetricFamily counter{.name = kCounter.name,
                                   .help = kCounter.help,
                                   .type = prometheus::MetricType::Counter,
                                   .metric = {}};
  counter.metric.emplace_back().label = {{"model", model}};
  counter.metric.back().counter.value = 1.0 / 3;
  const std::string theirs =
      prometheus::TextSerializer().Serialize({counter, times});

  Scrape scrape(kAll);
  scrape.Add(kTimes, {{"model", model}}, SomeTimes());
  scrape.Add(kCounter, {{"model", model}}, 1.0 / 3);
  EXPECT_EQ(Values(scrape.Text()), Values(theirs));
}

TEST(ScrapeTest, ManyValuesInAnyOrderAreAsIfEachWereAlone) {
  std::mt19937_64 random(7);
  std::string counters;
  std::string times;
  Scrape scrape(kAll);
  for (int i = 0; i < 1'000; ++i) {
    const std::string model(random() % 70, "a\"\\\n"[random() % 4]);
    const uint64_t n = random() >> (random() % 64);
    Scrape one(kAll);
    if (random() % 2 == 0) {
      const auto value = static_cast<double>(n);
      scrape.Add(kCounter, {{"model", model}, {"way", "w"}}, value);
      one.Add(kCounter, {{"model", model}, {"way", "w"}}, value);
      counters += LinesOf(kCounter, one.Text());
    } else {
      Histogram::Counts counts = SomeTimes();
      for (uint64_t& count : counts.cumulative) count = n;
      counts.cumulative[0] = std::numeric_limits<uint64_t>::max();
      counts.sum = 1.0 / static_cast<double>(random());
      scrape.Add(kTimes, {{"model", model}}, counts);
      one.Add(kTimes, {{"model", model}}, counts);
      times += LinesOf(kTimes, one.Text());
    }
  }
  const std::string text = scrape.Text();
  EXPECT_EQ(LinesOf(kCounter, text), counters);
  EXPECT_EQ(LinesOf(kTimes, text), times);
}

TEST(ScrapeTest, EveryHistogramHasItsOwnBounds) {
  constexpr std::array kOther = {1.0, 2.5};
  Scrape scrape(kAll);
  scrape.Add(kTimes, {{"model", "a"}}, SomeTimes());
  scrape.Add(kTimes, {{"model", "b"}}, Histogram(kOther).Read());
  scrape.Add(kTimes, {{"model", "c"}}, SomeTimes());
  const auto values = Values(scrape.Text());
  EXPECT_EQ(values.size(), 3u * 2 + 5 + 3 + 5);
  EXPECT_EQ(values.at(R"(time_seconds_bucket{model="b",le="1"})"), 0);
  EXPECT_EQ(values.at(R"(time_seconds_bucket{model="c",le="0.25"})"), 3);
  EXPECT_EQ(values.count(R"(time_seconds_bucket{model="b",le="0.25"})"), 0u);
}

TEST(ScrapeTest, NoLabelMakesALineOfItsOwn) {
  Scrape scrape(kAll);
  scrape.Add(kCounter, {{"model", "m\" 1\nready 2\\"}, {"way", ""}}, 1.0);
  EXPECT_NE(
      scrape.Text().find(R"(done_total{model="m\" 1\nready 2\\",way=""} 1)"
                         "\n"),
      std::string::npos);
  EXPECT_EQ(scrape.Text().find("\nready 2"), std::string::npos);
}

TEST(ScrapeTest, EveryNumberIsReadAsItself) {
  EXPECT_EQ(GaugeLine(0), "ready 0");
  EXPECT_EQ(GaugeLine(-12), "ready -12");
  EXPECT_EQ(GaugeLine(9007199254740991), "ready 9007199254740991");
  EXPECT_EQ(GaugeLine(kInfinity), "ready +Inf");
  EXPECT_EQ(GaugeLine(-kInfinity), "ready -Inf");
  EXPECT_EQ(GaugeLine(std::nan("")), "ready NaN");
  for (const double value : {9007199254740992.0, 1.0 / 3, 1e300, 5e-324}) {
    double read = 0;
    ASSERT_TRUE(absl::SimpleAtod(GaugeLine(value).substr(6), &read));
    EXPECT_EQ(read, value);
  }
}

TEST(ScrapeDeathTest, AMetricThatIsNotListedIsABug) {
  constexpr std::array kOne = {&kGauge};
  Scrape scrape(kOne);
  EXPECT_DEATH(scrape.Add(kCounter, {}, 1.0), "the list has every metric");
}

}  // namespace
}  // namespace plimsoll::services
