// docs/metrics.md has exactly the metrics that exist, and dashboard and alerts
// use no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/metrics/gateway_metric_list.h"
#include "services/metrics/metric.h"
#include "services/metrics/planner_metric_list.h"
#include "services/metrics/worker_metric_list.h"
#include "tests/read_file.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::ReadFile;

std::string Read(const std::string& path) {
  std::string text = ReadFile(path);
  EXPECT_FALSE(text.empty()) << path;
  return text;
}

std::vector<const Metric*> AllMetrics() {
  const auto worker = WorkerMetricList();
  const auto planner = PlannerMetricList();
  const auto gateway = GatewayMetricList();
  std::vector<const Metric*> all(worker.begin(), worker.end());
  all.insert(all.end(), gateway.begin(), gateway.end());
  all.insert(all.end(), planner.begin(), planner.end());
  // Some are in several lists.
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

const char* WordOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

// The tables' lines as "type, labels, meaning", by the metric's name.
std::map<std::string, std::string> Documented() {
  std::map<std::string, std::string> lines;
  const std::string page = Read("docs/metrics.md");
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!absl::ConsumePrefix(&line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    if (cells.size() != 4) continue;
    const std::string name = cells[0].substr(0, cells[0].find('`'));
    EXPECT_EQ(lines.count(name), 0u) << name << " is there twice";
    lines[name] =
        absl::StrCat(cells[1], ", ", absl::StrReplaceAll(cells[2], {{"`", ""}}),
                     ", ", absl::StripSuffix(cells[3], " |"));
  }
  return lines;
}

// The names of metrics that queries in `text` use, without the suffixes that
// the series of a histogram have.
std::set<std::string> NamesIn(const std::string& text) {
  static const std::regex kName(
      R"(\b(plimsoll_|vllm:|gen_ai_|process_)[a-z0-9_]+)");
  static const std::regex kSuffix("_(bucket|sum|count)$");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), kName), end; it != end;
       ++it) {
    names.insert(std::regex_replace(it->str(), kSuffix, ""));
  }
  return names;
}

TEST(MetricListTest, ThePageHasExactlyTheMetricsThatExist) {
  std::map<std::string, std::string> expected;
  for (const Metric* metric : AllMetrics()) {
    EXPECT_EQ(expected.count(metric->name), 0u) << metric->name;
    const std::string labels = *metric->labels == '\0' ? "-" : metric->labels;
    expected[metric->name] =
        absl::StrCat(WordOf(metric->type), ", ", labels, ", ", metric->help);
  }
  EXPECT_EQ(Documented(), expected);
}

TEST(MetricListTest, NamesAreAsPrometheusWantsThem) {
  for (const Metric* metric : AllMetrics()) {
    EXPECT_EQ(absl::EndsWith(metric->name, "_total"),
              metric->type == MetricType::kCounter)
        << metric->name;
    EXPECT_TRUE(std::regex_match(metric->name, std::regex("[a-z][a-z0-9_:]*")))
        << metric->name;
    EXPECT_TRUE(absl::EndsWith(metric->help, ".")) << metric->name;
  }
}

TEST(MetricListTest, DashboardAndAlertsUseMetricsThatExist) {
  std::set<std::string> exist;
  for (const Metric* metric : AllMetrics()) exist.insert(metric->name);
  for (const char* path :
       {"deploy/grafana/plimsoll.json", "deploy/prometheus/plimsoll.rules.yaml",
        "deploy/prometheus/tests.yaml"}) {
    const std::set<std::string> used = NamesIn(Read(path));
    EXPECT_FALSE(used.empty()) << path;
    for (const std::string& name : used) {
      EXPECT_EQ(exist.count(name), 1u) << path << " uses " << name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::services
