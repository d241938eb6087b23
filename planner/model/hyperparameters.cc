#include "planner/model/hyperparameters.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

absl::Status Missing(absl::string_view key) {
  return absl::InvalidArgumentError(
      absl::StrCat("metadata \"", key, "\" is missing"));
}

template <typename T>
absl::Status OutOfRange(absl::string_view key, T value, int64_t min,
                        int64_t max) {
  return absl::InvalidArgumentError(absl::StrCat(
      "metadata \"", key, "\" is ", value, ", not ", min, " to ", max));
}

}  // namespace

std::string Hyperparameters::Key(absl::string_view suffix) const {
  return absl::StrCat(architecture_, ".", suffix);
}

absl::StatusOr<int64_t> Hyperparameters::Int(
    absl::string_view suffix, int64_t min, int64_t max,
    std::optional<int64_t> fallback) const {
  const std::string key = Key(suffix);
  ASSIGN_OR_RETURN(const auto value, header_.Int(key));
  if (!value && fallback) return *fallback;
  if (!value) return Missing(key);
  if (*value < min || *value > max) return OutOfRange(key, *value, min, max);
  return *value;
}

absl::StatusOr<std::vector<int64_t>> Hyperparameters::PerLayer(
    absl::string_view suffix, int64_t n_layers, Range range,
    const std::vector<int64_t>& fallback) const {
  const auto [min, max] = range;
  const std::string key = Key(suffix);
  const auto it = header_.metadata.find(key);
  if (it == header_.metadata.end()) {
    if (!fallback.empty()) return fallback;
    return Missing(key);
  }
  if (it->second.type != GgufType::kArray) {
    ASSIGN_OR_RETURN(const int64_t value, Int(suffix, min, max));
    return std::vector<int64_t>(static_cast<size_t>(n_layers), value);
  }
  const GgufArray& array = std::get<GgufArray>(it->second.value);
  const auto n = static_cast<size_t>(n_layers);
  if (array.n < n_layers || array.numbers.size() < n) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" is not an array of ", n_layers,
                     " numbers, one a layer"));
  }
  std::vector<int64_t> values;
  values.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const double value = array.numbers[i];
    // The comparison also refuses NaN.
    if (!(value >= static_cast<double>(min) &&
          value <= static_cast<double>(max)) ||
        value != std::floor(value)) {
      return OutOfRange(absl::StrCat(key, "[", i, "]"), value, min, max);
    }
    values.push_back(static_cast<int64_t>(value));
  }
  return values;
}

absl::StatusOr<std::optional<std::vector<bool>>> Hyperparameters::Flags(
    absl::string_view suffix, int64_t n_layers) const {
  const std::string key = Key(suffix);
  const auto it = header_.metadata.find(key);
  if (it == header_.metadata.end() || it->second.type != GgufType::kArray) {
    return std::nullopt;
  }
  const GgufArray& array = std::get<GgufArray>(it->second.value);
  const auto n = static_cast<size_t>(n_layers);
  if (array.element_type != GgufType::kBool || array.numbers.size() < n) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" is not an array of ", n_layers,
                     " bools, one a layer"));
  }
  std::vector<bool> flags(n);
  for (size_t i = 0; i < n; ++i) flags[i] = array.numbers[i] != 0;
  return flags;
}

absl::StatusOr<double> Hyperparameters::PositiveFloat(
    absl::string_view suffix, std::optional<double> fallback) const {
  const std::string key = Key(suffix);
  ASSIGN_OR_RETURN(const auto value, header_.Float(key));
  if (!value && fallback) return *fallback;
  if (!value) return Missing(key);
  if (!std::isfinite(*value) || *value <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata \"", key, "\" is ", *value, ", not finite and above 0"));
  }
  return *value;
}

}  // namespace plimsoll::planner
