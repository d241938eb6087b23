// Holds the calls of tools in a reply to the tools' schemas while they are
// generated.
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

// Where a model's constraints are made.
struct ConstraintRoom {
  const worker::Tokenizer& tokenizer;
  worker::ConstraintCache& cache;
  StopCheck stop;
};

// Constrains the reply to `chat`, which `reading` splits if it is split, from
// the mark of a call on, and from its begin on if a call is required. Calls are
// held if it is known how the model writes them, and if the request has no
// constraint of its own; other replies stay free. Marks that are control tokens
// are among options.shown_tokens. Returns what of a schema says nothing about
// the calls, or why the arguments are only held to be objects, or why the calls
// are free. Errors: kInvalidArgument if a call is required that cannot be held;
// those of `room.stop`.
absl::StatusOr<worker::SchemaNotes> HoldCalls(
    const v1::ChatPrompt& chat,
    const std::optional<worker::ReplyReading>& reading,
    const ConstraintRoom& room, worker::GenerateOptions& options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_CALL_CONSTRAINT_H_
