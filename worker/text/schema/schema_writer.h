// Writes the plans of a JSON schema as a grammar.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_WRITER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/schema_frame.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/schema_planner.h"

namespace plimsoll::worker {

// `planner` has made the plan. `frame` has the texts around the schema's text.
// Errors: kInvalidArgument naming the place and the exceeded limit; those of
// `stop`.
absl::StatusOr<std::shared_ptr<const Grammar>> WriteSchema(
    const SchemaPlan& plan, SchemaPlanner& planner, StopCheck stop,
    const SchemaFrame& frame = {});

// A number as the grammar writes it: without an exponent if it has few digits,
// else with one.
std::string NumberText(const Decimal& number);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_WRITER_H_
