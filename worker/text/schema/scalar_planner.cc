#include "worker/text/schema/scalar_planner.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

template <typename List, typename T>
void AddOnce(List& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) {
    list.push_back(std::move(value));
  }
}

// Makes all shapes with listed values one.
void JoinLists(std::vector<StringShape>& shapes) {
  StringShape joined;
  std::erase_if(shapes, [&](const StringShape& one) {
    if (!one.values) return false;
    if (!joined.values) joined.values.emplace();
    joined.values->insert(joined.values->end(), one.values->begin(),
                          one.values->end());
    return true;
  });
  if (!joined.values) return;
  std::sort(joined.values->begin(), joined.values->end());
  joined.values->erase(
      std::unique(joined.values->begin(), joined.values->end()),
      joined.values->end());
  shapes.push_back(std::move(joined));
}

void JoinLists(std::vector<NumberShape>& shapes) {
  NumberShape joined;
  std::erase_if(shapes, [&](const NumberShape& one) {
    if (!one.values) return false;
    if (!joined.values) joined.values.emplace();
    for (const Decimal& value : *one.values) AddOnce(*joined.values, value);
    return true;
  });
  if (joined.values) shapes.push_back(std::move(joined));
}

}  // namespace

absl::Status ScalarPlanner::AddNumber(const NumberShape& shape, ValuePlan& plan,
                                      const std::string& path) {
  if (!TextSets::IsPlain(shape)) {
    const auto set = sets_.Of(shape);
    if (!set.ok()) return SchemaErrorAt(path, set.status());
    if ((*set)->automaton.is_empty()) return absl::OkStatus();
  }
  AddOnce(plan.numbers, shape);
  return absl::OkStatus();
}

absl::Status ScalarPlanner::AddString(StringShape shape,
                                      std::vector<StringShape>& strings,
                                      const std::string& path) {
  if (shape.values && !shape.patterns.empty()) {
    std::vector<std::string> kept;
    for (const std::string& value : *shape.values) {
      bool matches = true;
      for (PatternUse use : shape.patterns) {
        const auto one = patterns_.Matches({use}, value);
        if (!one.ok()) return SchemaErrorAt(path, one.status());
        matches = matches && *one;
      }
      if (matches) kept.push_back(value);
    }
    if (kept.empty()) return absl::OkStatus();
    shape = {.values = std::move(kept)};
  } else if (shape.values) {
    shape = {.values = std::move(shape.values)};
  } else if (!sets_.IsPlain(shape)) {
    const auto set = sets_.Of(shape);
    if (!set.ok()) return SchemaErrorAt(path, set.status());
    if ((*set)->automaton.is_empty()) return absl::OkStatus();
  }
  AddOnce(strings, std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::vector<Literal>>> ScalarPlanner::ValuesOf(
    const Term& term, size_t most) {
  std::vector<Literal> values;
  const auto add = [&](SchemaJson value) {
    made_values_.push_back(std::make_unique<SchemaJson>(std::move(value)));
    values.push_back({made_values_.back().get(), /*is_value=*/true,
                      /*is_positive=*/true});
  };
  for (const JsonType type : kJsonTypes) {
    ASSIGN_OR_RETURN(const std::vector<Shape> shapes,
                     expander_.Expand(term, type));
    if (shapes.empty()) continue;
    if (type == JsonType::kArray || type == JsonType::kObject) {
      return std::nullopt;
    }
    if (type == JsonType::kNull) add(nullptr);
    ValuePlan plan;
    for (const Shape& shape : shapes) {
      plan.may_be_true |= shape.may_be_true;
      plan.may_be_false |= shape.may_be_false;
      if (type == JsonType::kNumber) {
        RETURN_IF_ERROR(AddNumber(shape.number, plan, index_.PathOf(term)));
      } else if (type == JsonType::kString) {
        RETURN_IF_ERROR(
            AddString(shape.string, plan.strings, index_.PathOf(term)));
      }
    }
    if (type == JsonType::kBoolean && plan.may_be_true) add(true);
    if (type == JsonType::kBoolean && plan.may_be_false) add(false);
    JoinValues(plan);
    for (const StringShape& one : plan.strings) {
      if (!one.values || one.values->size() > most) return std::nullopt;
      for (const std::string& value : *one.values) add(value);
    }
    for (const NumberShape& one : plan.numbers) {
      if (!one.values || one.values->size() > most) return std::nullopt;
      for (const Decimal& value : *one.values) {
        const auto text = PlainText(value, 18, 18);
        if (!text) return std::nullopt;
        add(SchemaJson::parse(*text, nullptr, /*allow_exceptions=*/false));
      }
    }
  }
  if (values.size() > most) return std::nullopt;
  return values;
}

void ScalarPlanner::JoinValues(ValuePlan& plan) {
  JoinLists(plan.strings);
  JoinLists(plan.numbers);
}

}  // namespace plimsoll::worker
