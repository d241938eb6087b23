// Turns a request for text into a sequence of an engine, for any transport.
#ifndef PLIMSOLL_SERVICES_GENERATION_GENERATION_H_
#define PLIMSOLL_SERVICES_GENERATION_GENERATION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/stop_check.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "services/generation/prompt.h"
#include "services/generation/served_model.h"
#include "services/server/byte_budget.h"
#include "services/wire/to_proto.h"
#include "worker/engine/engine.h"
#include "worker/scheduling/fair_queue.h"

namespace plimsoll::services {

// A request that was parsed and is not submitted yet.
struct Generation {
  ServedModel model;
  Prompt prompt;                    // without its ids, except in a Score call
  worker::GenerateOptions options;  // with the ids, except in a Score call
  // The parts of the constraint that have no effect on the reply.
  worker::SchemaNotes constraint_notes = {};
  bool has_token_bytes = false;  // the reply's tokens have their bytes
};

// The caller of a call: its identity, the call's id, the memory that the call
// holds for its messages, and a check whether the caller still waits.
struct Caller {
  worker::Claim claim;
  std::string request_id;
  ByteBudget::Share& held;
  StopCheck stop = NeverStop;
};

// A unary call whose context rolls may generate this many tokens, because its
// whole reply is kept until the end.
inline constexpr int64_t kMaxUnaryTokens = 65'536;

// Turns a request into options for `model`. The input of the request is freed
// once it is parsed: from then on the call holds tokens.
// Errors: those of the prompt and the options. A prompt that cannot fit by its
// bytes alone is refused before it is tokenised.
absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   v1::GenerateRequest& request);
absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   v1::StreamGenerateRequest& request);
// The prompt is the content of a user's message to a session.
absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   v1::ChatRequest& request);
// The prompt of a Score call, whose continuations follow it one by one. The
// request is not changed.
absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   const v1::ScoreRequest& request);

// Puts the prompt's ids and format into a reply, or into the first message of a
// stream.
template <typename Message>
void SetPrompt(const Generation& generation, std::span<const int32_t> ids,
               const std::string& request_id, Message& message) {
  message.mutable_prompt_ids()->Reserve(static_cast<int>(ids.size()));
  for (const int32_t id : ids) message.add_prompt_ids(ToUint32(id));
  message.set_model(generation.model.name);
  message.set_request_id(request_id);
  message.set_chat_format(generation.prompt.chat_format);
  if constexpr (requires { message.add_constraint_notes(std::string()); }) {
    for (const std::string& note : generation.constraint_notes) {
      message.add_constraint_notes(note);
    }
  }
}

// Describes the prompt for the first message of a stream.
v1::PromptInfo DescribePrompt(const Generation& generation,
                              const std::string& request_id);

// Submits `options` to the engine of `model`. The sequence ends at
// `options.deadline` at the latest.
// Errors: those of Engine::Submit, with details.
absl::Status Submit(const ServedModel& model, worker::GenerateOptions options,
                    std::shared_ptr<worker::TokenSink> sink);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_GENERATION_H_
