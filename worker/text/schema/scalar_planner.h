// Plans of values without parts: numbers and strings.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SCALAR_PLANNER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SCALAR_PLANNER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/shapes/expander.h"
#include "worker/text/schema/shapes/pattern_pool.h"
#include "worker/text/schema/shapes/schema_index.h"
#include "worker/text/schema/shapes/shape.h"
#include "worker/text/schema/text_sets.h"

namespace plimsoll::worker {

// Adds shapes to plans, unless they allow nothing. Not thread-safe. Errors:
// kInvalidArgument naming `path`; those of the expander.
class ScalarPlanner {
 public:
  // All must outlive it.
  ScalarPlanner(const SchemaIndex& index, PatternPool& patterns, TextSets& sets,
                Expander& expander)
      : index_(index), patterns_(patterns), sets_(sets), expander_(expander) {}

  absl::Status AddNumber(const NumberShape& shape, ValuePlan& plan,
                         const std::string& path);
  absl::Status AddString(StringShape shape, std::vector<StringShape>& strings,
                         const std::string& path);
  // Makes all shapes with listed values one.
  static void JoinValues(ValuePlan& plan);
  // The values that fit `term`; nothing if there may be more than `most`. They
  // live as long as this.
  absl::StatusOr<std::optional<std::vector<Literal>>> ValuesOf(const Term& term,
                                                               size_t most);

 private:
  const SchemaIndex& index_;
  PatternPool& patterns_;
  TextSets& sets_;
  Expander& expander_;
  std::vector<std::unique_ptr<SchemaJson>> made_values_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SCALAR_PLANNER_H_
