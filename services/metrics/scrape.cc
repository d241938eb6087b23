#include "services/metrics/scrape.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

// More than the two lines before a metric's values take.
constexpr size_t kMaxHeadBytes = 512;
// The digits of a count and the end of its line.
constexpr size_t kMaxCountBytes = 21;

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
  const auto is_special = [](char c) {
    return c == '\\' || c == '"' || c == '\n';
  };
  if (std::none_of(value.begin(), value.end(), is_special)) {
    text.append(value.data(), value.size());
    return;
  }
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
}

// Appends the labels as they are between braces.
void AppendLabels(Scrape::Labels labels, std::string& text) {
  bool is_first = true;
  for (const Scrape::Label& label : labels) {
    if (!std::exchange(is_first, false)) text += ',';
    absl::StrAppend(&text, label.name, "=\"");
    AppendEscaped(label.value, text);
    text += '"';
  }
}

// A series of a histogram.
struct Series {
  absl::string_view name;  // the histogram's
  absl::string_view suffix;
  const std::string& labels;
};

void AppendSeries(const Series& series, double value, std::string& lines) {
  absl::StrAppend(&lines, series.name, series.suffix);
  if (!series.labels.empty()) absl::StrAppend(&lines, "{", series.labels, "}");
  lines += ' ';
  AppendNumber(value, lines);
  lines += '\n';
}

char* Put(absl::string_view text, char* at) {
  return std::copy(text.begin(), text.end(), at);
}

}  // namespace

Scrape::Scrape(std::span<const Metric* const> metrics) {
  families_.reserve(metrics.size());
  for (const Metric* metric : metrics) families_.push_back({.metric = metric});
}

void Scrape::Add(const Metric& metric, Labels labels, double value) {
  std::string& lines = FamilyOf(metric).lines;
  lines += metric.name;
  if (labels.size() > 0) {
    lines += '{';
    AppendLabels(labels, lines);
    lines += '}';
  }
  lines += ' ';
  AppendNumber(value, lines);
  lines += '\n';
}

void Scrape::Add(const Metric& metric, Labels labels,
                 const Histogram::Counts& counts) {
  Family& family = FamilyOf(metric);
  labels_.clear();
  AppendLabels(labels, labels_);
  begin_.clear();
  absl::StrAppend(&begin_, metric.name, "_bucket{", labels_,
                  labels_.empty() ? "" : ",", "le=\"");
  AddBuckets(begin_, counts, family);
  AppendSeries({metric.name, "_sum", labels_}, counts.sum, family.lines);
  AppendSeries({metric.name, "_count", labels_},
               static_cast<double>(counts.total()), family.lines);
}

void Scrape::SetBounds(std::span<const double> bounds, Family& family) {
  if (!family.bound_texts.empty() &&
      std::equal(bounds.begin(), bounds.end(), family.bounds.begin(),
                 family.bounds.end())) {
    return;
  }
  family.bounds.assign(bounds.begin(), bounds.end());
  family.bound_texts.assign(bounds.size() + 1, "");
  for (size_t i = 0; i <= bounds.size(); ++i) {
    std::string& text = family.bound_texts[i];
    AppendNumber(
        i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity(),
        text);
    text += "\"} ";
  }
}

void Scrape::AddBuckets(absl::string_view begin,
                        const Histogram::Counts& counts, Family& family) {
  SetBounds(counts.bounds, family);
  // Room for all lines is made at once.
  size_t n_most = 0;
  for (const std::string& text : family.bound_texts) {
    n_most += begin.size() + text.size() + kMaxCountBytes;
  }
  std::string& lines = family.lines;
  const size_t n_before = lines.size();
  lines.resize(n_before + n_most);
  char* at = lines.data() + n_before;
  for (size_t i = 0; i < family.bound_texts.size(); ++i) {
    at = Put(family.bound_texts[i], Put(begin, at));
    at = std::to_chars(at, at + kMaxCountBytes, counts.cumulative[i]).ptr;
    *at++ = '\n';
  }
  lines.resize(static_cast<size_t>(at - lines.data()));
}

Scrape::Family& Scrape::FamilyOf(const Metric& metric) {
  // Values come nearly in the order of their metrics.
  for (size_t i = 0; i < families_.size(); ++i) {
    if (families_[last_].metric == &metric) return families_[last_];
    if (++last_ == families_.size()) last_ = 0;
  }
  PLIMSOLL_CHECK(false, "the list has every metric");
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
