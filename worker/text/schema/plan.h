// A JSON schema as a graph of plans. Plans define the written texts and their
// order.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/schema/shapes/shape.h"

namespace plimsoll::worker {

// The number of a value's plan.
using PlanNumber = int32_t;

// Items in their order, as an automaton whose first state is 0.
struct ArrayPlan {
  struct Edge {
    PlanNumber item;
    int32_t next;
  };
  struct State {
    bool accepts;
    std::vector<Edge> edges = {};
  };
  std::vector<PlanNumber> prefix = {};
  PlanNumber rest = 0;
  int64_t min = 0;
  int64_t max = GrammarBuilder::kUnlimited;
  std::vector<State> states = {};  // instead of the members above, unless empty
};

struct ObjectPlan {
  struct Named {
    std::string name = {};
    PlanNumber value;
    bool is_required;
  };
  // Members whose names are not listed and fit one of `names`.
  struct Others {
    std::vector<StringShape> names = {};
    PlanNumber value;
  };
  std::vector<Named> named = {};
  std::vector<Others> others = {};  // no name is in two entries
  // One of these members comes last, unless the list is empty.
  std::vector<Others> last = {};
  int64_t min = 0;  // members
  int64_t max = GrammarBuilder::kUnlimited;
};

// The forms of a value, which has one of them.
struct ValuePlan {
  Term term = {};
  bool is_any = false;
  bool may_be_null = false;
  bool may_be_true = false;
  bool may_be_false = false;
  std::vector<StringShape> strings = {};
  std::vector<NumberShape> numbers = {};
  std::vector<ArrayPlan> arrays = {};
  std::vector<ObjectPlan> objects = {};
};

// The most plans of one schema.
inline constexpr size_t kMaxPlans = 1 << 14;
// The most states of one array or object.
inline constexpr size_t kMaxPlanStates = 4'096;

// Plans that begin with number 0, the schema's own. Every plan allows a value,
// and every part of it is possible.
struct SchemaPlan {
  std::vector<ValuePlan> values = {};
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_H_
