#include "worker/text/schema/schema_planner.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema/plan_possible.h"

namespace plimsoll::worker {

SchemaPlanner::SchemaPlanner(const SchemaJson& root,
                             const SchemaOptions& options, StopCheck stop)
    : index_(root),
      patterns_(stop),
      sets_(patterns_, stop),
      expander_(index_, patterns_, options, stop),
      stop_(stop),
      numbers_(plan_),
      scalars_(index_, patterns_, sets_, expander_),
      arrays_(numbers_, scalars_, stop),
      objects_(numbers_, scalars_, expander_) {}

absl::StatusOr<SchemaPlan> SchemaPlanner::Make() {
  numbers_.Of({{&index_.root(), /*is_value=*/false, /*is_positive=*/true}});
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    if (i >= kMaxPlans) {
      return SchemaError("#", absl::StrCat("it is too large: it has more than ",
                                           kMaxPlans, " different values"));
    }
    RETURN_IF_ERROR(stop_());
    RETURN_IF_ERROR(Fill(static_cast<PlanNumber>(i)));
  }
  RETURN_IF_ERROR(RemoveImpossible(index_, stop_, plan_));
  return std::move(plan_);
}

absl::Status SchemaPlanner::Fill(PlanNumber number) {
  const Term term = plan_.values[static_cast<size_t>(number)].term;
  const std::string path = index_.PathOf(term);
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
          RETURN_IF_ERROR(scalars_.AddNumber(shape.number, plan, path));
          break;
        case JsonType::kString:
          RETURN_IF_ERROR(scalars_.AddString(shape.string, plan.strings, path));
          break;
        case JsonType::kArray:
          RETURN_IF_ERROR(arrays_.Add(shape.array, plan, path));
          break;
        case JsonType::kObject:
          RETURN_IF_ERROR(objects_.Add(std::move(shape.object), plan, path));
          break;
      }
    }
  }
  ScalarPlanner::JoinValues(plan);
  if (is_any) plan = {.term = term, .is_any = true};
  plan_.values[static_cast<size_t>(number)] = std::move(plan);
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
