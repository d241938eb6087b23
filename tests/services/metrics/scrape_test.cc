// The text format of Prometheus, beside prometheus-cpp's own writer.
#include "services/metrics/scrape.h"

#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
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

Scrape::Histogram SomeTimes() {
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
  const Scrape::Labels labels = {{"model", "a\"b\\c\nd"}};
  prometheus::MetricFamily times{.name = kTimes.name,
                                 .help = kTimes.help,
                                 .type = prometheus::MetricType::Histogram,
                                 .metric = {}};
  times.metric.emplace_back().label = labels;
  times.metric.back().histogram = SomeTimes();
  prometheus::MetricFamily counter{.name = kCounter.name,
                                   .help = kCounter.help,
                                   .type = prometheus::MetricType::Counter,
                                   .metric = {}};
  counter.metric.emplace_back().label = labels;
  counter.metric.back().counter.value = 1.0 / 3;
  const std::string theirs =
      prometheus::TextSerializer().Serialize({counter, times});

  Scrape scrape(kAll);
  scrape.Add(kTimes, labels, SomeTimes());
  scrape.Add(kCounter, labels, 1.0 / 3);
  EXPECT_EQ(Values(scrape.Text()), Values(theirs));
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
