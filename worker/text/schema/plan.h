// A JSON schema as a graph of plans. Plans define the written texts and their
// order.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/schema/expander.h"
#include "worker/text/schema/pattern_pool.h"
#include "worker/text/schema/schema_index.h"
#include "worker/text/schema/schema_options.h"
#include "worker/text/schema/shape.h"
#include "worker/text/schema/text_sets.h"

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

// Makes the plan of one schema. Not thread-safe.
class SchemaPlanner {
 public:
  // All must outlive it.
  SchemaPlanner(const SchemaJson& root, const SchemaOptions& options,
                StopCheck stop);

  // Errors: kInvalidArgument naming the place and the fault, the unsupported
  // feature or the exceeded limit, or if no value is valid; those of `stop`.
  absl::StatusOr<SchemaPlan> Make();

  // The place that a term came from, for messages.
  std::string PathOf(const Term& term) const;
  PatternPool& patterns() { return patterns_; }
  TextSets& sets() { return sets_; }
  const SchemaIndex& index() const { return index_; }
  const SchemaNotes& notes() const { return notes_; }

 private:
  PlanNumber NumberOf(const Term& term);
  absl::Status Fill(PlanNumber number);
  absl::Status AddNumber(const NumberShape& shape, ValuePlan& plan,
                         const std::string& path);
  absl::Status AddString(StringShape shape, std::vector<StringShape>& strings,
                         const std::string& path);
  // The error with the place, if it is one of the schema.
  static absl::Status At(absl::string_view path, const absl::Status& status);
  absl::Status AddArray(const ArrayShape& shape, ValuePlan& plan,
                        const std::string& path);
  absl::Status AddItemStates(const ArrayShape& shape, ArrayPlan& plan,
                             const std::string& path);
  absl::Status AddUniqueStates(const ArrayShape& shape, ArrayPlan& plan,
                               const std::string& path);
  absl::Status AddObject(ObjectShape shape, ValuePlan& plan,
                         const std::string& path);
  // Adds a shape with one witness at most.
  absl::Status AddObjectCase(const ObjectShape& one, ValuePlan& plan,
                             const std::string& path);
  // The term of a named member, with the terms of all rules about its name.
  absl::StatusOr<Term> TermOf(const ObjectShape& shape,
                              const ObjectShape::Named& named);
  absl::StatusOr<bool> IsAbout(const ObjectShape::Rule& rule,
                               const std::string& name);
  // The members whose names are not in `listed`, grouped by the rules about
  // them.
  absl::StatusOr<std::vector<ObjectPlan::Others>> OthersOf(
      const ObjectShape& shape, const std::vector<std::string>& listed,
      const ObjectShape::Witness* witness, const std::string& path);
  // The values that fit `term`; nothing if there may be more than `most`.
  absl::StatusOr<std::optional<std::vector<Literal>>> ValuesOf(const Term& term,
                                                               size_t most);
  // Splits a shape with witnesses into shapes that have at most one, which is
  // none of the listed names.
  absl::Status SplitWitnesses(ObjectShape shape, std::vector<ObjectShape>& out);
  // The names of one kind: names that match the patterns of `in`, and no other
  // pattern.
  absl::StatusOr<std::vector<StringShape>> NamesOf(
      const std::vector<std::vector<PatternUse>>& patterns, uint32_t in,
      const std::vector<std::string>& listed,
      const std::vector<StringShape>& among, const std::string& path);
  absl::StatusOr<std::vector<StringShape>> NameShapes(const Term& term);
  // Removes the parts that no value can have.
  absl::Status RemoveImpossible();
  bool IsPossible(const ArrayPlan& plan) const;
  bool IsPossible(const ObjectPlan& plan) const;
  bool IsPossible(PlanNumber number) const {
    return possible_[static_cast<size_t>(number)];
  }
  void Prune(ArrayPlan& plan) const;
  void Prune(ObjectPlan& plan) const;
  // The error that explains why no value is possible.
  absl::Status WhyImpossible() const;

  const SchemaOptions& options_;
  SchemaNotes notes_;
  SchemaIndex index_;
  PatternPool patterns_;
  TextSets sets_;
  Expander expander_;
  StopCheck stop_;
  SchemaPlan plan_;
  std::map<Term, PlanNumber> numbers_;
  std::vector<bool> possible_;  // for each plan
  std::vector<std::unique_ptr<SchemaJson>> made_values_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_H_
