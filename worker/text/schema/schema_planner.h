// Makes the plan of a schema.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_PLANNER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_PLANNER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "worker/text/schema/array_planner.h"
#include "worker/text/schema/object_planner.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/scalar_planner.h"
#include "worker/text/schema/shapes/expander.h"
#include "worker/text/schema/shapes/pattern_pool.h"
#include "worker/text/schema/shapes/schema_index.h"
#include "worker/text/schema/shapes/schema_options.h"
#include "worker/text/schema/term_numbering.h"
#include "worker/text/schema/text_sets.h"

namespace plimsoll::worker {

// Makes the plan of one schema. Not thread-safe.
class SchemaPlanner {
 public:
  // All must outlive it.
  SchemaPlanner(const SchemaJson& root, const SchemaOptions& options,
                StopCheck stop);
  SchemaPlanner(const SchemaPlanner&) = delete;
  SchemaPlanner& operator=(const SchemaPlanner&) = delete;

  // Errors: kInvalidArgument naming the place and the fault, the unsupported
  // feature or the exceeded limit, or if no value is valid; those of `stop`.
  absl::StatusOr<SchemaPlan> Make();

  PatternPool& patterns() { return patterns_; }
  TextSets& sets() { return sets_; }
  const SchemaIndex& index() const { return index_; }
  const SchemaOptions& options() const { return expander_.options(); }
  const SchemaNotes& notes() const { return expander_.notes(); }

 private:
  absl::Status Fill(PlanNumber number);

  SchemaIndex index_;
  PatternPool patterns_;
  TextSets sets_;
  Expander expander_;
  StopCheck stop_;
  SchemaPlan plan_;
  TermNumbering numbers_;
  ScalarPlanner scalars_;
  ArrayPlanner arrays_;
  ObjectPlanner objects_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_PLANNER_H_
