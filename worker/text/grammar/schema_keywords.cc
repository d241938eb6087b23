#include "worker/text/grammar/schema_keywords.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {
namespace {

// These keywords say nothing about what is valid.
constexpr absl::string_view kAnnotations[] = {
    "title",    "description", "default",    "examples", "$comment",
    "readOnly", "writeOnly",   "deprecated", "$defs",    "definitions",
};
// These are annotations at the root only: elsewhere they change what $ref
// means.
constexpr absl::string_view kRootAnnotations[] = {"$schema", "$id"};
constexpr absl::string_view kAlone[] = {"$ref",  "const", "enum",
                                        "anyOf", "oneOf", "allOf"};

struct TypeName {
  SchemaType type;
  absl::string_view name;
};
constexpr TypeName kTypes[] = {
    {SchemaType::kObject, "object"},   {SchemaType::kArray, "array"},
    {SchemaType::kString, "string"},   {SchemaType::kNumber, "number"},
    {SchemaType::kInteger, "integer"}, {SchemaType::kBoolean, "boolean"},
    {SchemaType::kNull, "null"},
};

struct TypedKeyword {
  absl::string_view name;
  SchemaType type;
};
constexpr TypedKeyword kTyped[] = {
    {"properties", SchemaType::kObject},
    {"required", SchemaType::kObject},
    {"additionalProperties", SchemaType::kObject},
    {"items", SchemaType::kArray},
    {"prefixItems", SchemaType::kArray},
    {"minItems", SchemaType::kArray},
    {"maxItems", SchemaType::kArray},
    {"minLength", SchemaType::kString},
    {"maxLength", SchemaType::kString},
    {"pattern", SchemaType::kString},
    {"format", SchemaType::kString},
    {"minimum", SchemaType::kInteger},
    {"maximum", SchemaType::kInteger},
    {"exclusiveMinimum", SchemaType::kInteger},
    {"exclusiveMaximum", SchemaType::kInteger},
};

template <typename List, typename T>
bool IsIn(const List& list, const T& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

const TypedKeyword* FindTyped(absl::string_view name) {
  for (const TypedKeyword& one : kTyped) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

absl::string_view NameOf(SchemaType type) {
  for (const TypeName& one : kTypes) {
    if (one.type == type) return one.name;
  }
  return "";
}

bool IsAnnotation(absl::string_view name, const std::string& path) {
  return IsIn(kAnnotations, name) ||
         (path == "#" && IsIn(kRootAnnotations, name));
}

absl::StatusOr<SchemaType> TypeNamed(const SchemaJson& name,
                                     const std::string& path) {
  if (name.is_string()) {
    const auto& text = name.get_ref<const std::string&>();
    for (const TypeName& one : kTypes) {
      if (one.name == text) return one.type;
    }
  }
  return SchemaError(path,
                     "type is not object, array, string, number, integer, "
                     "boolean or null, nor a list of them");
}

// Patterns of formats. A February has 28 days, so that every date exists.
constexpr absl::string_view kDate =
    "\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|"
    "(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))";
constexpr absl::string_view kTime =
    "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?"
    "(Z|[+\\-]([01]\\d|2[0-3]):[0-5]\\d)";
constexpr absl::string_view kUuid =
    "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
constexpr absl::string_view kIpv4 =
    "((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}"
    "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

}  // namespace

absl::Status SchemaError(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

const SchemaJson* Member(const SchemaJson& schema, const std::string& keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

absl::Status CheckKeywords(const SchemaJson& schema, const std::string& path) {
  std::string alone;
  for (const auto& [name, value] : schema.items()) {
    if (alone.empty() && IsIn(kAlone, name)) alone = name;
  }
  for (const auto& [name, value] : schema.items()) {
    if (IsAnnotation(name, path) || name == alone) continue;
    const bool is_known =
        name == "type" || IsIn(kAlone, name) || FindTyped(name) != nullptr;
    // A keyword that forbids nothing counts as absent.
    if (name == "uniqueItems" && value == false) continue;
    if (!is_known) {
      return SchemaError(path, absl::StrCat("the keyword '", name.substr(0, 64),
                                            "' is not supported"));
    }
    if (alone.empty()) continue;
    if (name == "type" && (alone == "const" || alone == "enum")) continue;
    return SchemaError(path, absl::StrCat("the keyword '", name, "' beside '",
                                          alone, "' is not supported"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SchemaType>> TypesOf(const SchemaJson& schema,
                                                const std::string& path) {
  std::vector<SchemaType> types;
  if (const SchemaJson* type = Member(schema, "type")) {
    if (!type->is_array()) {
      ASSIGN_OR_RETURN(const SchemaType one, TypeNamed(*type, path));
      types.push_back(one);
    } else {
      for (const SchemaJson& name : *type) {
        ASSIGN_OR_RETURN(const SchemaType one, TypeNamed(name, path));
        types.push_back(one);
      }
      if (types.empty()) return SchemaError(path, "type is an empty list");
    }
  }
  const bool is_given = !types.empty();
  for (const auto& [name, value] : schema.items()) {
    const TypedKeyword* keyword = FindTyped(name);
    if (keyword == nullptr) continue;
    const bool is_listed = IsIn(types, keyword->type);
    if (keyword->type == SchemaType::kInteger &&
        IsIn(types, SchemaType::kNumber)) {
      return SchemaError(
          path, absl::StrCat("the keyword '", name,
                             "' is supported for integers only, not for type "
                             "number"));
    }
    if (is_given && !is_listed) {
      return SchemaError(
          path, absl::StrCat("the keyword '", name, "' goes with type ",
                             NameOf(keyword->type), " only"));
    }
    if (keyword->type == SchemaType::kInteger && !is_given) {
      return SchemaError(path, absl::StrCat("the keyword '", name,
                                            "' needs type integer beside it"));
    }
    if (!is_listed) types.push_back(keyword->type);
  }
  return types;
}

bool IsOneOf(const SchemaJson& value, const std::vector<SchemaType>& types) {
  if (types.empty()) return true;
  const auto is_of = [&value](SchemaType type) {
    switch (type) {
      case SchemaType::kObject:
        return value.is_object();
      case SchemaType::kArray:
        return value.is_array();
      case SchemaType::kString:
        return value.is_string();
      case SchemaType::kNumber:
        return value.is_number();
      case SchemaType::kInteger:
        return value.is_number_integer();
      case SchemaType::kBoolean:
        return value.is_boolean();
      case SchemaType::kNull:
        return value.is_null();
    }
    return false;
  };
  return std::any_of(types.begin(), types.end(), is_of);
}

absl::StatusOr<std::optional<int64_t>> CountAt(const SchemaJson& schema,
                                               const char* keyword,
                                               const std::string& path) {
  const SchemaJson* value = Member(schema, keyword);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() &&
      value->get<uint64_t>() <= uint64_t{Grammar::kMaxRepeat}) {
    return value->get<int64_t>();
  }
  return SchemaError(path, absl::StrCat(keyword, " is not a count from 0 to ",
                                        Grammar::kMaxRepeat));
}

absl::StatusOr<IntegerRange> IntegerRangeOf(const SchemaJson& schema,
                                            int64_t most,
                                            const std::string& path) {
  IntegerRange range = {-most, most, false};
  struct Bound {
    const char* keyword;
    bool is_lower;
    bool is_exclusive;
  };
  constexpr Bound kBounds[] = {{"minimum", true, false},
                               {"exclusiveMinimum", true, true},
                               {"maximum", false, false},
                               {"exclusiveMaximum", false, true}};
  for (const Bound& bound : kBounds) {
    const SchemaJson* value = Member(schema, bound.keyword);
    if (value == nullptr) continue;
    range.is_limited = true;
    // Exact: a double holds every integer up to 2^53, and `most` is below 2^54.
    const double limit = value->is_number() ? value->get<double>() : NAN;
    if (!(std::abs(limit) <= static_cast<double>(most))) {
      return SchemaError(
          path, absl::StrCat(bound.keyword, " is not a number from -", most,
                             " to ", most));
    }
    auto whole = value->is_number_float()
                     ? static_cast<int64_t>(bound.is_lower ? std::ceil(limit)
                                                           : std::floor(limit))
                     : value->get<int64_t>();
    if (bound.is_exclusive && static_cast<double>(whole) == limit) {
      whole += bound.is_lower ? 1 : -1;
    }
    if (bound.is_lower) range.min = std::max(range.min, whole);
    if (!bound.is_lower) range.max = std::min(range.max, whole);
  }
  if (range.min > range.max) {
    return SchemaError(path, "no integer is within minimum and maximum");
  }
  return range;
}

std::optional<std::string> FormatPattern(absl::string_view name) {
  if (name == "date") return std::string(kDate);
  if (name == "time") return std::string(kTime);
  if (name == "date-time") return absl::StrCat(kDate, "T", kTime);
  if (name == "uuid") return std::string(kUuid);
  if (name == "ipv4") return std::string(kIpv4);
  return std::nullopt;
}

}  // namespace plimsoll::worker
