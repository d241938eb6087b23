#include "worker/text/schema/plan_possible.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// Whether the machine's first state leads to an accepting one by edges that
// `is_possible`; marks the states that do.
template <typename IsPossible>
std::vector<bool> AliveStates(const std::vector<ArrayPlan::State>& states,
                              const IsPossible& is_possible) {
  std::vector<std::vector<size_t>> before(states.size());
  std::vector<bool> alive(states.size(), false);
  std::vector<size_t> left;
  for (size_t i = 0; i < states.size(); ++i) {
    for (const ArrayPlan::Edge& edge : states[i].edges) {
      if (is_possible(edge.item)) {
        before[static_cast<size_t>(edge.next)].push_back(i);
      }
    }
    if (!states[i].accepts) continue;
    alive[i] = true;
    left.push_back(i);
  }
  while (!left.empty()) {
    const size_t at = left.back();
    left.pop_back();
    for (const size_t from : before[at]) {
      if (alive[from]) continue;
      alive[from] = true;
      left.push_back(from);
    }
  }
  return alive;
}

// Finds the possible plans of a schema.
class PossibleParts {
 public:
  PossibleParts(const SchemaIndex& index, StopCheck stop, SchemaPlan& plan)
      : index_(index), stop_(stop), plan_(plan) {}

  // Removes all other parts.
  absl::Status Keep();

 private:
  bool IsPossible(const ArrayPlan& plan) const;
  bool IsPossible(const ObjectPlan& plan) const;
  bool IsPossible(PlanNumber number) const {
    return possible_[static_cast<size_t>(number)];
  }
  void Prune(ArrayPlan& plan) const;
  void Prune(ObjectPlan& plan) const;
  // The error that explains why no value is possible.
  absl::Status WhyImpossible() const;

  const SchemaIndex& index_;
  StopCheck stop_;
  SchemaPlan& plan_;
  std::vector<bool> possible_;  // for each plan
};

bool PossibleParts::IsPossible(const ArrayPlan& plan) const {
  if (!plan.states.empty()) {
    return AliveStates(plan.states,
                       [this](PlanNumber item) { return IsPossible(item); })[0];
  }
  for (int64_t i = 0; i < plan.min; ++i) {
    const auto at = static_cast<size_t>(i);
    if (at >= plan.prefix.size()) return IsPossible(plan.rest);
    if (!IsPossible(plan.prefix[at])) return false;
  }
  return true;
}

bool PossibleParts::IsPossible(const ObjectPlan& plan) const {
  const auto has_any = [this](const std::vector<ObjectPlan::Others>& others) {
    return std::any_of(others.begin(), others.end(), [this](const auto& one) {
      return IsPossible(one.value);
    });
  };
  int64_t n_possible = 0;
  int64_t n_required = 0;
  for (const ObjectPlan::Named& one : plan.named) {
    if (one.is_required && !IsPossible(one.value)) return false;
    n_required += one.is_required ? 1 : 0;
    n_possible += IsPossible(one.value) ? 1 : 0;
  }
  const int64_t n_last = plan.last.empty() ? 0 : 1;
  if (n_last > 0 && !has_any(plan.last)) return false;
  if (n_required + n_last > plan.max) return false;
  return n_possible + n_last >= plan.min || has_any(plan.others);
}

void PossibleParts::Prune(ArrayPlan& plan) const {
  if (!plan.states.empty()) {
    const auto is_possible = [this](PlanNumber item) {
      return IsPossible(item);
    };
    const std::vector<bool> alive = AliveStates(plan.states, is_possible);
    for (ArrayPlan::State& state : plan.states) {
      std::erase_if(state.edges, [&](const ArrayPlan::Edge& edge) {
        return !is_possible(edge.item) ||
               !alive[static_cast<size_t>(edge.next)];
      });
    }
    return;
  }
  for (size_t i = 0; i < plan.prefix.size(); ++i) {
    if (IsPossible(plan.prefix[i])) continue;
    plan.max = std::min(plan.max, static_cast<int64_t>(i));
  }
  if (!IsPossible(plan.rest)) {
    plan.max = std::min(plan.max, static_cast<int64_t>(plan.prefix.size()));
  }
  if (plan.max < static_cast<int64_t>(plan.prefix.size())) {
    plan.prefix.resize(static_cast<size_t>(plan.max));
  }
}

void PossibleParts::Prune(ObjectPlan& plan) const {
  std::erase_if(plan.named, [this](const ObjectPlan::Named& one) {
    return !IsPossible(one.value);
  });
  for (auto* others : {&plan.others, &plan.last}) {
    std::erase_if(*others, [this](const ObjectPlan::Others& one) {
      return !IsPossible(one.value);
    });
  }
}

absl::Status PossibleParts::Keep() {
  std::vector<ValuePlan>& values = plan_.values;
  possible_.assign(values.size(), false);
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    RETURN_IF_ERROR(stop_());
    // What is used comes later mostly.
    for (size_t i = values.size(); i-- > 0;) {
      if (possible_[i]) continue;
      const ValuePlan& one = values[i];
      const auto is_possible = [this](const auto& plan) {
        return IsPossible(plan);
      };
      possible_[i] =
          one.is_any || one.may_be_null || one.may_be_true ||
          one.may_be_false || !one.strings.empty() || !one.numbers.empty() ||
          std::any_of(one.arrays.begin(), one.arrays.end(), is_possible) ||
          std::any_of(one.objects.begin(), one.objects.end(), is_possible);
      has_changed = has_changed || possible_[i];
    }
  }
  if (!possible_[0]) return WhyImpossible();
  for (ValuePlan& one : values) {
    std::erase_if(one.arrays,
                  [this](const ArrayPlan& plan) { return !IsPossible(plan); });
    std::erase_if(one.objects,
                  [this](const ObjectPlan& plan) { return !IsPossible(plan); });
    for (ArrayPlan& plan : one.arrays) Prune(plan);
    for (ObjectPlan& plan : one.objects) Prune(plan);
  }
  return absl::OkStatus();
}

absl::Status PossibleParts::WhyImpossible() const {
  std::set<PlanNumber> seen;
  PlanNumber at = 0;
  while (true) {
    const ValuePlan& plan = plan_.values[static_cast<size_t>(at)];
    const std::string path = index_.PathOf(plan.term);
    if (!seen.insert(at).second) {
      return SchemaError(path,
                         absl::StrCat("'", path,
                                      "' can never end: every way through "
                                      "it comes back to itself"));
    }
    // The part that is the reason, if there is one.
    std::optional<PlanNumber> next;
    for (const ObjectPlan& one : plan.objects) {
      for (const ObjectPlan::Named& named : one.named) {
        if (named.is_required && !IsPossible(named.value)) next = named.value;
      }
    }
    for (const ArrayPlan& one : plan.arrays) {
      for (const PlanNumber item : one.prefix) {
        if (!IsPossible(item)) next = item;
      }
      if (one.states.empty() && !IsPossible(one.rest)) next = one.rest;
    }
    if (!next) {
      const bool is_false = plan.term.size() == 1 && !plan.term[0].is_value &&
                            *plan.term[0].json == false;
      return SchemaError(path, is_false ? "false allows no value at all"
                                        : "no value is valid: its keywords "
                                          "contradict one another");
    }
    at = *next;
  }
}

}  // namespace

absl::Status RemoveImpossible(const SchemaIndex& index, StopCheck stop,
                              SchemaPlan& plan) {
  return PossibleParts(index, stop, plan).Keep();
}

}  // namespace plimsoll::worker
