#include "worker/text/grammar/schema_grammar.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/grammar_source.h"
#include "worker/text/grammar/json_grammar.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/grammar/schema_keywords.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {
namespace {

using Expr = GrammarBuilder::Expr;

// Writes a value as JsonGrammar spells it. Its text is valid UTF-8, which the
// reader checked.
std::string Spelled(const SchemaJson& value) {
  return value.dump(-1, ' ', false, SchemaJson::error_handler_t::replace);
}

// A name as a step of a JSON pointer.
std::string Step(absl::string_view path, absl::string_view name) {
  return absl::StrCat(
      path, "/",
      absl::StrReplaceAll(name.substr(0, 64), {{"~", "~0"}, {"/", "~1"}}));
}

class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaJson& root, StopCheck stop)
      : root_(root), builder_(stop) {}

  absl::StatusOr<std::shared_ptr<const Grammar>> Compile() {
    const int32_t root = RuleAt("#", root_);
    while (!left_.empty() && builder_.ok()) {
      const Target target = left_.back();
      left_.pop_back();
      ASSIGN_OR_RETURN(const Expr value, Value(*target.schema, target.path));
      builder_.Define(target.rule, value);
    }
    return builder_.Build(root);
  }

 private:
  // A rule that is named but not defined yet.
  struct Target {
    int32_t rule;
    const SchemaJson* schema;
    std::string path;
  };

  // The rule of the schema at `path`. It is compiled later, so that a deep
  // schema does not make this recursion deep.
  int32_t RuleAt(const std::string& path, const SchemaJson& schema) {
    const auto [found, is_new] = rules_.try_emplace(&schema, 0);
    if (is_new) {
      found->second = builder_.NewRule(path);
      left_.push_back({found->second, &schema, path});
    }
    return found->second;
  }
  Expr Later(const std::string& path, const SchemaJson& schema) {
    return builder_.Rule(RuleAt(path, schema));
  }

  absl::StatusOr<Expr> Value(const SchemaJson& schema,
                             const std::string& path) {
    if (schema.is_boolean()) {
      if (schema.get<bool>()) return json_.Any();
      return SchemaError(path, "false allows no value at all");
    }
    if (!schema.is_object()) {
      return SchemaError(path, "a schema is an object, true or false");
    }
    RETURN_IF_ERROR(CheckKeywords(schema, path));
    if (const SchemaJson* ref = Member(schema, "$ref")) {
      return Reference(*ref, path);
    }
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      const SchemaJson* list = Member(schema, keyword);
      if (list != nullptr) return AnyOf(*list, keyword, path);
    }
    ASSIGN_OR_RETURN(const std::vector<SchemaType> types,
                     TypesOf(schema, path));
    if (const SchemaJson* value = Member(schema, "const")) {
      return Enumeration(SchemaJson::array({*value}), types, path);
    }
    if (const SchemaJson* values = Member(schema, "enum")) {
      return Enumeration(*values, types, path);
    }
    if (types.empty()) return json_.Any();
    std::vector<Expr> choices;
    for (const SchemaType type : types) {
      ASSIGN_OR_RETURN(const Expr one, OfType(type, schema, path));
      choices.push_back(one);
    }
    return builder_.Choice(std::move(choices));
  }

  absl::StatusOr<Expr> OfType(SchemaType type, const SchemaJson& schema,
                              const std::string& path) {
    switch (type) {
      case SchemaType::kObject:
        return Object(schema, path);
      case SchemaType::kArray:
        return Array(schema, path);
      case SchemaType::kString:
        return String(schema, path);
      case SchemaType::kNumber:
        return json_.Number();
      case SchemaType::kInteger: {
        ASSIGN_OR_RETURN(
            const IntegerRange range,
            IntegerRangeOf(schema, JsonGrammar::kMaxInteger, path));
        if (!range.is_limited) return json_.Integer();
        return json_.IntegerIn(range.min, range.max);
      }
      case SchemaType::kBoolean:
        return json_.Boolean();
      case SchemaType::kNull:
        return json_.Null();
    }
    return SchemaError(path, "a type that is not known");
  }

  // Follows a local JSON pointer. Source: RFC 6901.
  absl::StatusOr<Expr> Reference(const SchemaJson& ref,
                                 const std::string& path) {
    const std::string target =
        ref.is_string() ? ref.get<std::string>() : std::string();
    if (target != "#" && !absl::StartsWith(target, "#/")) {
      return SchemaError(
          path,
          "the keyword '$ref' is supported for places in this schema "
          "only: '#' and '#/...'");
    }
    const SchemaJson* at = &root_;
    const std::vector<std::string> steps = absl::StrSplit(target, '/');
    for (size_t i = 1; i < steps.size() && at != nullptr; ++i) {
      const std::string name =
          absl::StrReplaceAll(steps[i], {{"~1", "/"}, {"~0", "~"}});
      size_t index = 0;
      if (at->is_object()) {
        at = Member(*at, name);
      } else if (at->is_array() && absl::SimpleAtoi(name, &index) &&
                 index < at->size()) {
        at = &(*at)[index];
      } else {
        at = nullptr;
      }
    }
    if (at == nullptr) {
      return SchemaError(path,
                         absl::StrCat("$ref names '", target.substr(0, 128),
                                      "', which is not there"));
    }
    return Later(target, *at);
  }

  absl::StatusOr<Expr> AnyOf(const SchemaJson& list, const char* keyword,
                             const std::string& path) {
    if (!list.is_array() || list.empty()) {
      return SchemaError(path, absl::StrCat(keyword, " is not a list"));
    }
    if (absl::string_view(keyword) == "allOf" && list.size() != 1) {
      return SchemaError(
          path, "the keyword 'allOf' is supported for a single schema only");
    }
    RETURN_IF_ERROR(CheckMembers(list, keyword, path));
    std::vector<Expr> choices;
    for (size_t i = 0; i < list.size(); ++i) {
      choices.push_back(
          Later(absl::StrCat(path, "/", keyword, "/", i), list[i]));
    }
    return builder_.Choice(std::move(choices));
  }

  static absl::Status CheckMembers(const SchemaJson& list, const char* keyword,
                                   const std::string& path) {
    if (list.size() <= kMaxSchemaMembers) return absl::OkStatus();
    return SchemaError(
        path, absl::StrCat(keyword, " has ", list.size(), " members; at most ",
                           kMaxSchemaMembers, " are allowed"));
  }

  absl::StatusOr<Expr> Enumeration(const SchemaJson& values,
                                   const std::vector<SchemaType>& types,
                                   const std::string& path) {
    if (!values.is_array()) return SchemaError(path, "enum is not a list");
    std::vector<Expr> choices;
    for (const SchemaJson& value : values) {
      if (!IsOneOf(value, types)) continue;
      choices.push_back(builder_.Literal(Spelled(value)));
    }
    if (choices.empty()) {
      return SchemaError(path, "of const or enum no value is of its type");
    }
    return builder_.Choice(std::move(choices));
  }

  absl::StatusOr<Expr> String(const SchemaJson& schema,
                              const std::string& path) {
    ASSIGN_OR_RETURN(const auto min, CountAt(schema, "minLength", path));
    ASSIGN_OR_RETURN(const auto max, CountAt(schema, "maxLength", path));
    const SchemaJson* pattern = Member(schema, "pattern");
    const SchemaJson* format = Member(schema, "format");
    const int n_rules =
        (min || max ? 1 : 0) + (pattern ? 1 : 0) + (format ? 1 : 0);
    if (n_rules > 1) {
      return SchemaError(path,
                         "of pattern, format and minLength or maxLength "
                         "only one is supported at a time");
    }
    if (min.value_or(0) > max.value_or(GrammarBuilder::kUnlimited)) {
      return SchemaError(path, "minLength is more than maxLength");
    }
    if (n_rules == 0 || min || max) {
      return json_.String(min.value_or(0),
                          max.value_or(GrammarBuilder::kUnlimited));
    }
    std::string regex;
    if (pattern != nullptr) {
      if (!pattern->is_string()) {
        return SchemaError(path, "pattern is not a string");
      }
      regex = pattern->get<std::string>();
    } else {
      const auto known =
          FormatPattern(format->is_string() ? format->get<std::string>() : "");
      if (!known) {
        return SchemaError(
            path,
            absl::StrCat(
                "the keyword 'format' is supported for date, time, date-time, "
                "uuid and ipv4 only, not for ",
                Spelled(*format).substr(0, 64)));
      }
      regex = *known;
    }
    const auto inner = AddRegex(
        regex,
        {.is_search = pattern != nullptr,
         .chars = [this](const CodePoints& s) { return json_.StringChar(s); }},
        builder_);
    if (!inner.ok()) {
      return SchemaError(absl::StrCat(path, "/pattern"),
                         inner.status().message());
    }
    const Expr quote = builder_.Literal("\"");
    return builder_.Sequence({quote, *inner, quote});
  }

  absl::StatusOr<Expr> Array(const SchemaJson& schema,
                             const std::string& path) {
    ASSIGN_OR_RETURN(const auto min_items, CountAt(schema, "minItems", path));
    ASSIGN_OR_RETURN(const auto max_items, CountAt(schema, "maxItems", path));
    const int64_t min = min_items.value_or(0);
    const SchemaJson* items = Member(schema, "items");
    const SchemaJson* prefix = Member(schema, "prefixItems");
    if (prefix != nullptr && (!prefix->is_array() || prefix->empty())) {
      return SchemaError(path, "prefixItems is not a list");
    }
    const auto n_prefix =
        prefix == nullptr ? 0 : static_cast<int64_t>(prefix->size());
    const bool is_closed = items != nullptr && *items == false;
    int64_t max = max_items.value_or(GrammarBuilder::kUnlimited);
    if (is_closed) max = std::min(max, n_prefix);
    if (min > max) {
      return SchemaError(path, "minItems is more than an array may have");
    }
    Expr other = builder_.Literal("");
    if (!is_closed) {
      other = items == nullptr ? json_.Any() : Later(path + "/items", *items);
    }
    const auto item = [&](int64_t i) {
      if (i >= n_prefix) return other;
      return Later(absl::StrCat(path, "/prefixItems/", i),
                   (*prefix)[static_cast<size_t>(i)]);
    };
    // This goes from the last item with a schema of its own to the first.
    const int64_t n_own = std::min(n_prefix, max);
    Expr rest = builder_.Literal("");
    const int64_t n_before = std::max<int64_t>(n_own, 1);
    if (max > n_before) {
      const int64_t limit =
          max == GrammarBuilder::kUnlimited ? max : max - n_before;
      rest = builder_.Repeat(builder_.Sequence({json_.Comma(), other}),
                             std::max<int64_t>(min - n_before, 0), limit);
    }
    for (int64_t i = n_own - 1; i >= 1; --i) {
      Expr more = builder_.Sequence({json_.Comma(), item(i), rest});
      if (i >= min) more = builder_.Optional(more);
      rest = AsRule(path, more);
    }
    std::optional<Expr> values;
    if (max > 0) values = builder_.Sequence({item(0), rest});
    return json_.Array(values, min == 0);
  }

  // The properties listed, in their order.
  struct Property {
    std::string name;
    const SchemaJson* schema;
    bool is_required = false;
  };
  absl::StatusOr<std::vector<Property>> Properties(const SchemaJson& schema,
                                                   const std::string& path) {
    std::vector<Property> properties;
    absl::flat_hash_map<std::string, size_t> numbers;
    if (const SchemaJson* given = Member(schema, "properties")) {
      if (!given->is_object()) {
        return SchemaError(path, "properties is not an object");
      }
      RETURN_IF_ERROR(CheckMembers(*given, "properties", path));
      for (const auto& one : given->items()) {
        if (one.key().size() > kMaxPropertyBytes) {
          return SchemaError(
              path, absl::StrCat("the name of a property has more than ",
                                 kMaxPropertyBytes, " bytes"));
        }
        numbers[one.key()] = properties.size();
        properties.push_back({one.key(), &one.value()});
      }
    }
    const SchemaJson* required = Member(schema, "required");
    if (required == nullptr) return properties;
    if (!required->is_array()) {
      return SchemaError(path, "required is not a list");
    }
    for (const SchemaJson& name : *required) {
      const auto found =
          numbers.find(name.is_string() ? name.get<std::string>() : "");
      if (found == numbers.end()) {
        return SchemaError(
            path, absl::StrCat("required names ", Spelled(name).substr(0, 64),
                               ", which is not among the properties"));
      }
      properties[found->second].is_required = true;
    }
    return properties;
  }

  absl::StatusOr<Expr> Object(const SchemaJson& schema,
                              const std::string& path) {
    ASSIGN_OR_RETURN(const std::vector<Property> properties,
                     Properties(schema, path));
    // `members` are the members from one property on. `rest` is what may follow
    // the property before, with the comma. Both are absent or empty if nothing
    // follows.
    std::optional<Expr> members;
    Expr rest = builder_.Literal("");
    const SchemaJson* others = Member(schema, "additionalProperties");
    if (others != nullptr && *others != false) {
      std::vector<std::string> names;
      names.reserve(properties.size());
      for (const Property& one : properties) names.push_back(one.name);
      const Expr other =
          json_.Member(json_.StringExcept(names),
                       Later(path + "/additionalProperties", *others));
      rest = AsRule(
          path, builder_.Repeat(builder_.Sequence({json_.Comma(), other}), 0,
                                GrammarBuilder::kUnlimited));
      members = AsRule(path, builder_.Sequence({other, rest}));
    }
    bool may_be_empty = true;
    for (size_t i = properties.size(); i-- > 0 && builder_.ok();) {
      const Property& one = properties[i];
      const Expr member = json_.Member(
          builder_.Literal(Spelled(one.name)),
          Later(Step(path + "/properties", one.name), *one.schema));
      std::vector<Expr> choices = {builder_.Sequence({member, rest})};
      if (one.is_required) {
        may_be_empty = false;
      } else if (members) {
        choices.push_back(*members);
      }
      members = AsRule(path, builder_.Choice(std::move(choices)));
      const Expr more = builder_.Sequence({json_.Comma(), *members});
      rest = AsRule(path, may_be_empty ? builder_.Optional(more) : more);
    }
    return json_.Object(members, may_be_empty);
  }

  // Makes a rule of an expression, so that it is stored once if it is used
  // twice.
  Expr AsRule(const std::string& path, Expr definition) {
    const int32_t rule = builder_.NewRule(path);
    builder_.Define(rule, definition);
    return builder_.Rule(rule);
  }

  const SchemaJson& root_;
  GrammarBuilder builder_;
  JsonGrammar json_{builder_};
  absl::flat_hash_map<const SchemaJson*, int32_t> rules_;
  std::vector<Target> left_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Grammar>> CompileJsonSchema(
    absl::string_view schema, StopCheck stop) {
  RETURN_IF_ERROR(CheckSourceSize(schema));
  ASSIGN_OR_RETURN(const SchemaJson root, ReadSchemaJson(schema));
  return SchemaCompiler(root, stop).Compile();
}

}  // namespace plimsoll::worker
