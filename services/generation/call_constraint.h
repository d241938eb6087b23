// Constrains tool calls in a reply to the tools' schemas during generation.
#ifndef PLIMSOLL_SERVICES_GENERATION_CALL_CONSTRAINT_H_
#define PLIMSOLL_SERVICES_GENERATION_CALL_CONSTRAINT_H_

#include <optional>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "plimsoll/v1/common.pb.h"
#include "worker/engine/generate_options.h"
#include "worker/text/chat/reply_splitter.h"
#include "worker/text/schema/constraint.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::services {

// The parts that make a model's constraints.
struct ConstraintRoom {
  const worker::Tokenizer& tokenizer;
  worker::ConstraintCache& cache;
  StopCheck stop;
};

// Constrains the reply to `chat` from the mark of a tool call on. If a call is
// required, the reply is constrained from its begin on. `reading` tells how the
// reply is split, if it is split. Calls are constrained if the model's form of
// calls is known and the request has no constraint of its own; other replies
// stay free. Marks that are control tokens are among options.shown_tokens.
// Returns the parts of a schema that have no effect on the calls, or why the
// arguments must only be objects, or why the calls are free. Errors:
// kInvalidArgument if a required call cannot be constrained; those of
// `room.stop`.
absl::StatusOr<worker::SchemaNotes> HoldCalls(
    const v1::ChatPrompt& chat,
    const std::optional<worker::ReplyReading>& reading,
    const ConstraintRoom& room, worker::GenerateOptions& options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_CALL_CONSTRAINT_H_
