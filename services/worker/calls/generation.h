// What both forms of generation have in common: a request becomes a submitted
// sequence, and its end becomes a status.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_GENERATION_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_GENERATION_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/stop_check.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "services/server/byte_budget.h"
#include "services/wire/to_proto.h"
#include "services/worker/calls/prompt.h"
#include "services/worker/models/loaded_model.h"
#include "services/worker/models/model_registry.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// A request that was understood, not submitted yet.
struct Generation {
  LoadedModel::Use model;
  Prompt prompt;                    // without its ids, but of a Score call
  worker::GenerateOptions options;  // with them, but of a Score call
};

// Who calls, the call's id, what it holds for its messages, and whether the
// caller still waits.
struct Caller {
  grpc::CallbackServerContext& context;
  const std::string& request_id;
  ByteBudget::Share& held;
  StopCheck stop = NeverStop;
};

// Tokens that a call which is not a stream may generate where the context rolls
// and so does not end it: the whole reply is kept until then.
inline constexpr int64_t kMaxUnaryTokens = 65'536;

// The input of the request is freed once it is understood: the call holds
// tokens from then on.
// Errors: what the caller's metadata, ModelRegistry::Use, the prompt and the
// options report; a prompt whose bytes alone say that it cannot fit is refused
// before it is tokenised.
absl::StatusOr<Generation> Prepare(ModelRegistry& registry,
                                   const Caller& caller,
                                   const v1::GenerateRequest& request);
absl::StatusOr<Generation> Prepare(ModelRegistry& registry,
                                   const Caller& caller,
                                   const v1::StreamGenerateRequest& request);
// The prompt is the content of a user's message to a session.
absl::StatusOr<Generation> Prepare(ModelRegistry& registry,
                                   const Caller& caller,
                                   const v1::ChatRequest& request);
// The prompt of a Score call, whose continuations follow it one by one; its
// request is left whole.
absl::StatusOr<Generation> Prepare(ModelRegistry& registry,
                                   const Caller& caller,
                                   const v1::ScoreRequest& request);

// Says in a reply, or in the first message of a stream, what the prompt became.
template <typename Message>
void SetPrompt(const Generation& generation, std::span<const int32_t> ids,
               const std::string& request_id, Message& message) {
  message.mutable_prompt_ids()->Reserve(static_cast<int>(ids.size()));
  for (const int32_t id : ids) message.add_prompt_ids(ToUint32(id));
  message.set_model(generation.model->name);
  message.set_request_id(request_id);
  message.set_chat_format(generation.prompt.chat_format);
}

// Submits `options` to its model; it ends `time_left` from `now` at the latest.
// Errors: as Engine::Submit, with details.
absl::Status Submit(const LoadedModel& model, worker::GenerateOptions options,
                    absl::Duration time_left, absl::Time now,
                    std::shared_ptr<worker::TokenSink> sink);

// A refusal of a session's calls, with details.
absl::Status SessionStatus(absl::Status status);

// A sequence's end, with details where it has none yet.
absl::Status EndStatus(absl::Status status);

// A model's memory as it is now.
v1::MemoryReport MemoryOf(const LoadedModel& model);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_GENERATION_H_
