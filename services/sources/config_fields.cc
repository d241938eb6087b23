#include "services/sources/config_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::services {

absl::Status BadField(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("config.json: \"", name, "\" ", what));
}

const ConfigValue* FindField(const ConfigObject& object,
                             absl::string_view name) {
  const auto it = object.fields().find(std::string(name));
  if (it == object.fields().end() || it->second.has_null_value()) {
    return nullptr;
  }
  return &it->second;
}

const ConfigObject* FindObject(const ConfigObject& object,
                               absl::string_view name) {
  const ConfigValue* value = FindField(object, name);
  if (value == nullptr || !value->has_struct_value()) return nullptr;
  return &value->struct_value();
}

std::string TextOf(const ConfigObject& object, absl::string_view name) {
  const ConfigValue* value = FindField(object, name);
  return value == nullptr ? "" : value->string_value();
}

absl::StatusOr<uint64_t> CountOf(const ConfigValue& value,
                                 absl::string_view name) {
  constexpr double kMax = 9007199254740992.0;  // doubles are exact up to it
  const double number = value.number_value();
  if (!value.has_number_value() || !(number >= 0 && number <= kMax) ||
      number != std::floor(number)) {
    return BadField(name, "is not a whole number from 0 to 2^53");
  }
  return static_cast<uint64_t>(number);
}

absl::StatusOr<uint64_t> RequiredCount(const ConfigObject& object,
                                       absl::string_view name) {
  const ConfigValue* value = FindField(object, name);
  if (value == nullptr) return BadField(name, "is missing");
  return CountOf(*value, name);
}

absl::StatusOr<std::optional<double>> NumberOf(const ConfigObject& object,
                                               absl::string_view name) {
  const ConfigValue* value = FindField(object, name);
  if (value == nullptr) return std::optional<double>();
  if (!value->has_number_value() || !std::isfinite(value->number_value())) {
    return BadField(name, "is not a number");
  }
  return std::optional<double>(value->number_value());
}

absl::StatusOr<double> RequiredNumber(const ConfigObject& object,
                                      absl::string_view name) {
  ASSIGN_OR_RETURN(const std::optional<double> number, NumberOf(object, name));
  if (number) return *number;
  return BadField(name, "is missing");
}

}  // namespace plimsoll::services
