// Reads single values out of a reply to Prometheus.
#ifndef PLIMSOLL_TESTS_SERVICES_METRICS_SCRAPE_TEXT_H_
#define PLIMSOLL_TESTS_SERVICES_METRICS_SCRAPE_TEXT_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace plimsoll::services {

// Returns the value of a series, written as `name{label="value",...}`, or
// nothing if there is no such line.
inline std::optional<double> ValueOf(absl::string_view text,
                                     absl::string_view series) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, series)) continue;
    double value = 0;
    if (absl::ConsumePrefix(&line, " ") && absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return std::nullopt;
}

// Returns the types of all metrics that the text names, by name.
inline std::map<std::string, std::string> TypesIn(absl::string_view text) {
  std::map<std::string, std::string> types;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "# TYPE ")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    types[words.at(0)] = words.at(1);
  }
  return types;
}

// Returns the names of the labels that series of a metric have. The series of
// histograms have the label `le`, too.
inline std::set<std::string> LabelsIn(absl::string_view text,
                                      const std::string& name) {
  std::set<std::string> labels;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    absl::ConsumePrefix(&line, "_bucket");
    if (!absl::ConsumePrefix(&line, "{")) continue;
    for (absl::string_view pair :
         absl::StrSplit(line.substr(0, line.rfind('}')), "\",")) {
      labels.emplace(pair.substr(0, pair.find('=')));
    }
  }
  return labels;
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_METRICS_SCRAPE_TEXT_H_
