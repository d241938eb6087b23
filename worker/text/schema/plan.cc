#include "worker/text/schema/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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
void JoinValues(std::vector<StringShape>& shapes) {
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

void JoinValues(std::vector<NumberShape>& shapes) {
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

SchemaPlanner::SchemaPlanner(const SchemaJson& root,
                             const SchemaOptions& options, StopCheck stop)
    : options_(options),
      index_(root),
      patterns_(stop),
      sets_(patterns_, stop),
      expander_(index_, patterns_, options, notes_, stop),
      stop_(stop) {}

absl::StatusOr<SchemaPlan> SchemaPlanner::Make() {
  NumberOf({{&index_.root(), /*is_value=*/false, /*is_positive=*/true}});
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    if (i >= kMaxPlans) {
      return SchemaError("#", absl::StrCat("it is too large: it has more than ",
                                           kMaxPlans, " different values"));
    }
    RETURN_IF_ERROR(stop_());
    RETURN_IF_ERROR(Fill(static_cast<PlanNumber>(i)));
  }
  RETURN_IF_ERROR(RemoveImpossible());
  return std::move(plan_);
}

PlanNumber SchemaPlanner::NumberOf(const Term& term) {
  const auto number = static_cast<PlanNumber>(plan_.values.size());
  const auto [found, is_new] = numbers_.try_emplace(term, number);
  if (is_new) plan_.values.push_back({.term = term});
  return found->second;
}

std::string SchemaPlanner::PathOf(const Term& term) const {
  for (const Literal& one : term) {
    if (!one.is_value) return index_.PathOf(one.json);
  }
  return "#";
}

absl::Status SchemaPlanner::Fill(PlanNumber number) {
  const Term term = plan_.values[static_cast<size_t>(number)].term;
  const std::string path = PathOf(term);
  ValuePlan plan = {.term = term};
  bool is_any = true;
  for (const JsonType type : kJsonTypes) {
    ASSIGN_OR_RETURN(std::vector<Shape> shapes, expander_.Expand(term, type));
    is_any = is_any && shapes.size() == 1 && shapes[0] == Shape();
    for (Shape& shape : shapes) {
      switch (type) {
        case JsonType::kNull:
          plan.may_be_null = true;
          break;
        case JsonType::kBoolean:
          plan.may_be_true |= shape.may_be_true;
          plan.may_be_false |= shape.may_be_false;
          break;
        case JsonType::kNumber:
          RETURN_IF_ERROR(AddNumber(shape.number, plan, path));
          break;
        case JsonType::kString:
          RETURN_IF_ERROR(AddString(shape.string, plan.strings, path));
          break;
        case JsonType::kArray:
          RETURN_IF_ERROR(AddArray(shape.array, plan, path));
          break;
        case JsonType::kObject:
          RETURN_IF_ERROR(AddObject(std::move(shape.object), plan, path));
          break;
      }
    }
  }
  JoinValues(plan.strings);
  JoinValues(plan.numbers);
  if (is_any) plan = {.term = term, .is_any = true};
  plan_.values[static_cast<size_t>(number)] = std::move(plan);
  return absl::OkStatus();
}

absl::Status SchemaPlanner::AddNumber(const NumberShape& shape, ValuePlan& plan,
                                      const std::string& path) {
  if (!TextSets::IsPlain(shape)) {
    const auto set = sets_.Of(shape);
    if (!set.ok()) return At(path, set.status());
    if ((*set)->automaton.is_empty()) return absl::OkStatus();
  }
  AddOnce(plan.numbers, shape);
  return absl::OkStatus();
}

absl::Status SchemaPlanner::AddString(StringShape shape,
                                      std::vector<StringShape>& strings,
                                      const std::string& path) {
  if (shape.values && !shape.patterns.empty()) {
    std::vector<std::string> kept;
    for (const std::string& value : *shape.values) {
      bool matches = true;
      for (PatternUse use : shape.patterns) {
        const auto one = patterns_.Matches({use}, value);
        if (!one.ok()) return At(path, one.status());
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
    if (!set.ok()) return At(path, set.status());
    if ((*set)->automaton.is_empty()) return absl::OkStatus();
  }
  AddOnce(strings, std::move(shape));
  return absl::OkStatus();
}

absl::Status SchemaPlanner::At(absl::string_view path,
                               const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return SchemaError(path, status.message());
}

absl::StatusOr<std::optional<std::vector<Literal>>> SchemaPlanner::ValuesOf(
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
        RETURN_IF_ERROR(AddNumber(shape.number, plan, PathOf(term)));
      } else if (type == JsonType::kString) {
        RETURN_IF_ERROR(AddString(shape.string, plan.strings, PathOf(term)));
      }
    }
    if (type == JsonType::kBoolean && plan.may_be_true) add(true);
    if (type == JsonType::kBoolean && plan.may_be_false) add(false);
    JoinValues(plan.strings);
    JoinValues(plan.numbers);
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

}  // namespace plimsoll::worker
