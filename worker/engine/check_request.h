// Checks requests and sessions before anything is computed for them.
#ifndef PLIMSOLL_WORKER_ENGINE_CHECK_REQUEST_H_
#define PLIMSOLL_WORKER_ENGINE_CHECK_REQUEST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/engine/generate_options.h"
#include "worker/engine/session_info.h"

namespace plimsoll::worker {

// Checks a request for a context of `n_ctx` tokens.
// Errors: kInvalidArgument naming the field; kOutOfRange if the prompt is
// longer than a context that does not roll, with both numbers.
absl::Status CheckRequest(const GenerateOptions& options, int64_t n_ctx,
                          int32_t vocab_size);

// Checks that something bounds the reply, as it must without preemption: the
// context, max_tokens or the deadline.
// Errors: kInvalidArgument if nothing does.
absl::Status CheckHasEnd(const GenerateOptions& options);

// Checks a session before it is opened.
// Errors: kInvalidArgument naming the field.
absl::Status CheckSession(const SessionOptions& options, int32_t vocab_size);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_CHECK_REQUEST_H_
