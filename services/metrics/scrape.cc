#include "services/metrics/scrape.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

// More than the two lines before a metric's values take.
constexpr size_t kMaxHeadBytes = 512;

absl::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

// Appends the shortest digits that are read as the same number.
void AppendNumber(double value, std::string& text) {
  constexpr double kExactIntegers = 1LL << 53;
  if (std::isnan(value)) {
    text += "NaN";
  } else if (std::isinf(value)) {
    text += value > 0 ? "+Inf" : "-Inf";
  } else {
    char digits[32];
    const bool is_integer =
        std::abs(value) < kExactIntegers && value == std::trunc(value);
    const auto end = is_integer
                         ? std::to_chars(digits, std::end(digits),
                                         static_cast<int64_t>(value))
                         : std::to_chars(digits, std::end(digits), value);
    text.append(digits, end.ptr);
  }
}

void AppendEscaped(absl::string_view value, std::string& text) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
}

// The labels as they are between braces.
std::string LabelText(const Scrape::Labels& labels) {
  std::string text;
  for (const Scrape::Label& label : labels) {
    absl::StrAppend(&text, text.empty() ? "" : ",", label.name, "=\"");
    AppendEscaped(label.value, text);
    text += '"';
  }
  return text;
}

// Appends one line; `suffix` is that of a part of a histogram.
void AppendLine(absl::string_view name, absl::string_view suffix,
                const std::string& labels, double value, std::string& lines) {
  absl::StrAppend(&lines, name, suffix);
  if (!labels.empty()) absl::StrAppend(&lines, "{", labels, "}");
  lines += ' ';
  AppendNumber(value, lines);
  lines += '\n';
}

}  // namespace

Scrape::Scrape(std::span<const Metric* const> metrics) {
  families_.reserve(metrics.size());
  for (const Metric* metric : metrics) families_.push_back({metric, "", {}});
}

void Scrape::Add(const Metric& metric, const Labels& labels, double value) {
  AppendLine(metric.name, "", LabelText(labels), value, FamilyOf(metric).lines);
}

void Scrape::Add(const Metric& metric, const Labels& labels,
                 const Histogram& histogram) {
  const std::string text = LabelText(labels);
  Family& family = FamilyOf(metric);
  std::string& lines = family.lines;
  const std::string begin = absl::StrCat(metric.name, "_bucket{", text,
                                         text.empty() ? "" : ",", "le=\"");
  family.bounds.resize(histogram.bucket.size());
  for (size_t i = 0; i < histogram.bucket.size(); ++i) {
    const auto& bucket = histogram.bucket[i];
    Bound& bound = family.bounds[i];
    // Most histograms of a metric have the same bounds.
    if (bound.text.empty() || bound.value != bucket.upper_bound) {
      bound = {bucket.upper_bound, ""};
      AppendNumber(bound.value, bound.text);
      bound.text += "\"} ";
    }
    absl::StrAppend(&lines, begin, bound.text, bucket.cumulative_count, "\n");
  }
  AppendLine(metric.name, "_sum", text, histogram.sample_sum, lines);
  AppendLine(metric.name, "_count", text,
             static_cast<double>(histogram.sample_count), lines);
}

Scrape::Family& Scrape::FamilyOf(const Metric& metric) {
  const auto family = std::find_if(
      families_.begin(), families_.end(),
      [&metric](const Family& one) { return one.metric == &metric; });
  PLIMSOLL_CHECK(family != families_.end(), "the list has every metric");
  return *family;
}

std::string Scrape::Text() const {
  // A text of a megabyte is not copied as it grows.
  size_t n_bytes = 0;
  for (const Family& family : families_) {
    n_bytes += kMaxHeadBytes + family.lines.size();
  }
  std::string text;
  text.reserve(n_bytes);
  for (const Family& family : families_) {
    const Metric& metric = *family.metric;
    absl::StrAppend(&text, "# HELP ", metric.name, " ", metric.help,
                    "\n# TYPE ", metric.name, " ", TypeName(metric.type), "\n",
                    family.lines);
  }
  return text;
}

}  // namespace plimsoll::services
