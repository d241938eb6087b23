// Finds what no value can have, and removes it from plans.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_POSSIBLE_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_POSSIBLE_H_

#include "absl/status/status.h"
#include "base/stop_check.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/shapes/schema_index.h"

namespace plimsoll::worker {

// Removes the parts of `plan` that no value can have. Errors: kInvalidArgument
// naming the place and the reason, if no value is possible; those of `stop`.
absl::Status RemoveImpossible(const SchemaIndex& index, StopCheck stop,
                              SchemaPlan& plan);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_PLAN_POSSIBLE_H_
