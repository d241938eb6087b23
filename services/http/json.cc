#include "services/http/json.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kMostInt = std::numeric_limits<int64_t>::max();
// Beyond it not every whole number is a double.
constexpr double kMaxWhole = 9'007'199'254'740'992;

std::string Bounds(absl::string_view kind, const std::string& min,
                   const std::string& max) {
  return absl::StrCat("must be ", kind, " from ", min, " to ", max);
}

}  // namespace

std::optional<int64_t> WholeNumber(const Json& value, int64_t min,
                                   int64_t max) {
  if (!value.is_number()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(kMostInt)) {
    return std::nullopt;
  }
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (number != std::trunc(number) || std::abs(number) > kMaxWhole) {
      return std::nullopt;
    }
  }
  const auto number = value.get<int64_t>();
  if (number < min || number > max) return std::nullopt;
  return number;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

absl::StatusOr<Json> ReadBody(absl::string_view body) {
  auto json = worker::ReadSchemaJson(body);
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the body is not JSON that can be read: ", json.status().message()));
  }
  if (!json->is_object()) {
    return absl::InvalidArgumentError("the body must be a JSON object");
  }
  return json;
}

absl::StatusOr<JsonFields> JsonFields::Of(const Json& object,
                                          std::string path) {
  if (object.is_object()) return JsonFields(object, std::move(path));
  if (!path.empty() && path.back() == '.') path.pop_back();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": must be a JSON object"));
}

absl::Status JsonFields::Bad(const std::string& name,
                             absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, name, ": ", what));
}

const Json* JsonFields::Find(const std::string& name) {
  known_.insert(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<std::optional<bool>> JsonFields::Bool(const std::string& name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return Bad(name, "must be true or false");
  return value->get<bool>();
}

absl::StatusOr<std::optional<int64_t>> JsonFields::Int(const std::string& name,
                                                       int64_t min,
                                                       int64_t max) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = WholeNumber(*value, min, max);
  if (!number.has_value()) {
    return Bad(name,
               Bounds("a whole number", absl::StrCat(min), absl::StrCat(max)));
  }
  return number;
}

absl::StatusOr<std::optional<double>> JsonFields::Number(
    const std::string& name, double min, double max) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= min && number <= max)) {
    return Bad(name, Bounds("a number", absl::StrCat(min), absl::StrCat(max)));
  }
  return number;
}

absl::StatusOr<std::optional<std::string>> JsonFields::Text(
    const std::string& name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return Bad(name, "must be a text");
  return value->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> JsonFields::Texts(
    const std::string& name, size_t max) {
  std::vector<std::string> texts;
  const Json* value = Find(name);
  if (value == nullptr) return texts;
  if (value->is_string()) {
    texts.push_back(value->get<std::string>());
    return texts;
  }
  if (!value->is_array() || value->size() > max) {
    return Bad(name, absl::StrCat("must be a text or at most ", max, " texts"));
  }
  for (const Json& one : *value) {
    if (!one.is_string()) return Bad(name, "must be a text or texts");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

absl::StatusOr<std::vector<int64_t>> JsonFields::Ints(const std::string& name,
                                                      int64_t min,
                                                      int64_t max) {
  std::vector<int64_t> numbers;
  const Json* value = Find(name);
  if (value == nullptr) return numbers;
  if (!value->is_array()) return Bad(name, "must be an array");
  numbers.reserve(value->size());
  for (const Json& one : *value) {
    const std::optional<int64_t> number = WholeNumber(one, min, max);
    if (!number.has_value()) {
      return Bad(name,
                 Bounds("whole numbers", absl::StrCat(min), absl::StrCat(max)));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

void JsonFields::Ignore(const std::vector<std::string>& names) {
  known_.insert(names.begin(), names.end());
}

absl::Status JsonFields::AllowOnly(const std::string& name, const Json& only,
                                   absl::string_view why) {
  const Json* value = Find(name);
  if (value == nullptr || *value == only) return absl::OkStatus();
  return Bad(name, why);
}

absl::Status JsonFields::End() const {
  for (const auto& [name, value] : object_->items()) {
    if (known_.count(name) > 0) continue;
    return Bad(name,
               "is not a parameter that this server knows; docs/http.md lists "
               "those that it does");
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
