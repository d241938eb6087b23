// Plans of arrays: which items, in which order.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_ARRAY_PLANNER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_ARRAY_PLANNER_H_

#include <string>

#include "absl/status/status.h"
#include "base/stop_check.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/scalar_planner.h"
#include "worker/text/schema/shapes/shape.h"
#include "worker/text/schema/term_numbering.h"

namespace plimsoll::worker {

// Plans what the arrays of a value may hold. Not thread-safe.
class ArrayPlanner {
 public:
  // All must outlive it.
  ArrayPlanner(TermNumbering& numbers, ScalarPlanner& scalars, StopCheck stop)
      : numbers_(numbers), scalars_(scalars), stop_(stop) {}

  // Adds the arrays of `shape` to `plan`. Errors: kInvalidArgument naming
  // `path` and what is not supported or the exceeded limit; those of `stop`.
  absl::Status Add(const ArrayShape& shape, ValuePlan& plan,
                   const std::string& path);

 private:
  absl::Status AddItemStates(const ArrayShape& shape, ArrayPlan& plan,
                             const std::string& path);
  absl::Status AddUniqueStates(const ArrayShape& shape, ArrayPlan& plan,
                               const std::string& path);

  TermNumbering& numbers_;
  ScalarPlanner& scalars_;
  StopCheck stop_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_ARRAY_PLANNER_H_
