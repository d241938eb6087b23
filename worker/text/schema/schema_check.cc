#include "worker/text/schema/schema_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/text/grammar/grammar_source.h"
#include "worker/text/grammar/grammar_state.h"
#include "worker/text/schema/json_text.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/schema_planner.h"
#include "worker/text/schema/schema_writer.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {
namespace {

// A value as the grammar writes it; nothing if it does not fit.
using Layout = std::optional<std::string>;

// A text as JSON's string, with its quotes.
std::string QuotedJson(const std::string& text) {
  return SchemaJson(text).dump(-1, ' ', false,
                               SchemaJson::error_handler_t::replace);
}

class LayoutCheck : public SchemaCheck {
 public:
  LayoutCheck(SchemaJson root, const SchemaOptions& options)
      : root_(std::move(root)),
        options_(options),
        planner_(root_, options_, never_) {}

  absl::Status Compile(StopCheck stop) {
    ASSIGN_OR_RETURN(plan_, planner_.Make());
    ASSIGN_OR_RETURN(grammar_, WriteSchema(plan_, planner_, stop));
    return absl::OkStatus();
  }

  const std::shared_ptr<const Grammar>& grammar() const override {
    return grammar_;
  }
  const SchemaNotes& notes() const override { return planner_.notes(); }

  Verdict Check(absl::string_view text) override {
    const JsonText json = ReadJsonText(text);
    if (!json.is_valid) return {false, json.error_at};
    known_.clear();
    misfit_ = json.root.begin;
    const Layout layout = Lay(0, json.root);
    if (!layout || !CheckText(grammar_, *layout).is_accepted) {
      return {false, misfit_};
    }
    return {true, text.size()};
  }

 private:
  // The recursion is as deep as the text.
  Layout Lay(PlanNumber number, const JsonNode& node) {
    const auto [found, is_new] = known_.try_emplace({number, &node});
    if (!is_new) return found->second;
    Layout layout = LayNew(plan_.values[static_cast<size_t>(number)], node);
    if (!layout) misfit_ = std::max(misfit_, node.begin);
    known_[{number, &node}] = layout;
    return layout;
  }

  Layout LayNew(const ValuePlan& plan, const JsonNode& node) {
    if (plan.is_any) return Plain(node);
    switch (node.type) {
      case JsonType::kNull:
        return PlainIf(plan.may_be_null, node);
      case JsonType::kBoolean:
        return PlainIf(node.is_true ? plan.may_be_true : plan.may_be_false,
                       node);
      case JsonType::kNumber:
        for (const NumberShape& one : plan.numbers) {
          const bool is_plain_enough = node.is_plain ||
                                       one.is_integer != true ||
                                       !planner_.index().IntegersArePlain();
          if (is_plain_enough && Allows(one, node.number) &&
              (!one.values || std::find(one.values->begin(), one.values->end(),
                                        node.number) != one.values->end())) {
            return Plain(node);
          }
        }
        return std::nullopt;
      case JsonType::kString:
        return PlainIf(HasOneOf(plan.strings, node.text), node);
      case JsonType::kArray:
        for (const ArrayPlan& one : plan.arrays) {
          Layout layout =
              one.states.empty() ? LayItems(one, node) : LayByStates(one, node);
          if (layout) return layout;
        }
        return std::nullopt;
      case JsonType::kObject:
        for (const ObjectPlan& one : plan.objects) {
          if (Layout layout = LayMembers(one, node)) return layout;
        }
        return std::nullopt;
    }
    return std::nullopt;
  }

  static Layout PlainIf(bool fits, const JsonNode& node) {
    if (!fits) return std::nullopt;
    return Plain(node);
  }

  static std::string Plain(const JsonNode& node) {
    switch (node.type) {
      case JsonType::kNull:
        return "null";
      case JsonType::kBoolean:
        return node.is_true ? "true" : "false";
      case JsonType::kNumber:
        return NumberText(node.number);
      case JsonType::kString:
        return QuotedJson(node.text);
      case JsonType::kArray:
      case JsonType::kObject:
        break;
    }
    const bool is_array = node.type == JsonType::kArray;
    std::vector<std::string> parts;
    for (size_t i = 0; i < node.parts.size(); ++i) {
      parts.push_back(absl::StrCat(
          is_array ? "" : absl::StrCat(QuotedJson(node.names[i]), ":"),
          Plain(node.parts[i])));
    }
    return absl::StrCat(is_array ? "[" : "{", absl::StrJoin(parts, ","),
                        is_array ? "]" : "}");
  }

  bool HasOneOf(const std::vector<StringShape>& shapes,
                const std::string& text) {
    const auto n = std::count_if(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    });
    return std::any_of(
        shapes.begin(), shapes.end(), [&](const StringShape& one) {
          if (one.values) {
            return std::binary_search(one.values->begin(), one.values->end(),
                                      text);
          }
          if (n < one.min || n > one.max) return false;
          if (std::binary_search(one.excluded.begin(), one.excluded.end(),
                                 text)) {
            return false;
          }
          // Where an automaton would be too large, the grammar decides.
          return planner_.patterns().Matches(one.patterns, text).value_or(true);
        });
  }

  Layout LayItems(const ArrayPlan& plan, const JsonNode& node) {
    const auto n = static_cast<int64_t>(node.parts.size());
    if (n < plan.min || n > plan.max) return std::nullopt;
    std::vector<std::string> parts;
    for (size_t i = 0; i < node.parts.size(); ++i) {
      const Layout part = Lay(
          i < plan.prefix.size() ? plan.prefix[i] : plan.rest, node.parts[i]);
      if (!part) return std::nullopt;
      parts.push_back(*part);
    }
    return absl::StrCat("[", absl::StrJoin(parts, ","), "]");
  }

  // The ways of a machine through all items, breadth first.
  Layout LayByStates(const ArrayPlan& plan, const JsonNode& node) {
    std::map<int32_t, std::string> at = {{0, ""}};
    for (const JsonNode& item : node.parts) {
      std::map<int32_t, std::string> after;
      for (const auto& [state, layout] : at) {
        const auto& edges = plan.states[static_cast<size_t>(state)].edges;
        for (const ArrayPlan::Edge& edge : edges) {
          if (after.contains(edge.next)) continue;
          const Layout part = Lay(edge.item, item);
          if (!part) continue;
          after[edge.next] =
              absl::StrCat(layout, layout.empty() ? "" : ",", *part);
        }
      }
      at = std::move(after);
    }
    for (const auto& [state, layout] : at) {
      if (plan.states[static_cast<size_t>(state)].accepts) {
        return absl::StrCat("[", layout, "]");
      }
    }
    return std::nullopt;
  }

  // The member `i` as one of the names that are not listed.
  Layout LayOther(const std::vector<ObjectPlan::Others>& others,
                  const JsonNode& node, size_t i) {
    for (const ObjectPlan::Others& one : others) {
      if (!HasOneOf(one.names, node.names[i])) continue;
      const Layout value = Lay(one.value, node.parts[i]);
      if (value) return absl::StrCat(QuotedJson(node.names[i]), ":", *value);
    }
    misfit_ = std::max(misfit_, node.name_begins[i]);
    return std::nullopt;
  }

  Layout LayMembers(const ObjectPlan& plan, const JsonNode& node) {
    const auto n = static_cast<int64_t>(node.parts.size());
    if (n < plan.min || n > plan.max) return std::nullopt;
    std::map<std::string, size_t> left;
    for (size_t i = 0; i < node.names.size(); ++i) left[node.names[i]] = i;
    std::vector<std::string> parts;
    for (const ObjectPlan::Named& one : plan.named) {
      const auto found = left.find(one.name);
      if (found == left.end()) {
        if (one.is_required) return std::nullopt;
        continue;
      }
      const Layout value = Lay(one.value, node.parts[found->second]);
      if (!value) return std::nullopt;
      parts.push_back(absl::StrCat(QuotedJson(one.name), ":", *value));
      left.erase(found);
    }
    std::vector<size_t> rest;
    rest.reserve(left.size());
    for (const auto& [name, i] : left) rest.push_back(i);
    std::sort(rest.begin(), rest.end());
    if (plan.last.empty()) {
      if (!LayOthers(plan, node, rest, parts)) return std::nullopt;
      return ObjectOf(parts);
    }
    // Any of them may be the one that comes last.
    for (const size_t i : rest) {
      const Layout last = LayOther(plan.last, node, i);
      if (!last) continue;
      std::vector<size_t> others;
      for (const size_t k : rest) {
        if (k != i) others.push_back(k);
      }
      std::vector<std::string> all = parts;
      if (!LayOthers(plan, node, others, all)) continue;
      all.push_back(*last);
      return ObjectOf(all);
    }
    return std::nullopt;
  }

  // Adds the members `rest`, whose names are not listed, to `parts`. Returns
  // false if one does not fit.
  bool LayOthers(const ObjectPlan& plan, const JsonNode& node,
                 const std::vector<size_t>& rest,
                 std::vector<std::string>& parts) {
    for (const size_t i : rest) {
      const Layout other = LayOther(plan.others, node, i);
      if (!other) return false;
      parts.push_back(*other);
    }
    return true;
  }

  static Layout ObjectOf(const std::vector<std::string>& parts) {
    return absl::StrCat("{", absl::StrJoin(parts, ","), "}");
  }

  static absl::Status Never() { return absl::OkStatus(); }

  const SchemaJson root_;
  const SchemaOptions options_;
  const StopCheck never_ = Never;
  SchemaPlanner planner_;
  SchemaPlan plan_;
  std::shared_ptr<const Grammar> grammar_;
  std::map<std::pair<PlanNumber, const JsonNode*>, Layout> known_;
  size_t misfit_ = 0;  // the last place that did not fit
};

}  // namespace

Verdict CheckText(const std::shared_ptr<const Grammar>& grammar,
                  absl::string_view text) {
  GrammarState state(grammar);
  size_t at = 0;
  while (at < text.size() && state.Advance(text.substr(at, 1))) {
    ++at;
    state.BeginStep();
  }
  return {at == text.size() && state.Accepts(state.current()), at};
}

absl::StatusOr<std::unique_ptr<SchemaCheck>> SchemaCheck::Make(
    absl::string_view schema, const SchemaOptions& options, StopCheck stop) {
  RETURN_IF_ERROR(CheckSourceSize(schema));
  ASSIGN_OR_RETURN(SchemaJson root, ReadSchemaJson(schema));
  auto check = std::make_unique<LayoutCheck>(std::move(root), options);
  RETURN_IF_ERROR(check->Compile(stop));
  return check;
}

}  // namespace plimsoll::worker
