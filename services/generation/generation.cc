#include "services/generation/generation.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/generation/call_constraint.h"
#include "services/generation/message_bytes.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

// When a slot may be free again; nobody knows better.
constexpr absl::Duration kQueueRetry = absl::Seconds(1);
// When a session may be free again: people hold one for longer than a slot.
constexpr absl::Duration kSessionRetry = absl::Seconds(30);

// Both requests have the same fields.
template <typename Request>
absl::StatusOr<Prompt> PromptOf(const ServedModel& model,
                                const Request& request,
                                const worker::EncodeLimits& limits) {
  switch (request.input_case()) {
    case Request::kText:
      return FromText(model, request.text(), limits);
    case Request::kTokens:
      return FromIds(model, request.tokens());
    case Request::kChat:
      return FromChat(model, request.chat(), limits);
    default:
      return absl::InvalidArgumentError(
          "input: text, tokens or chat is needed");
  }
}

// PromptOf, with details where its bytes alone are too many. A context that
// rolls takes any prompt.
template <typename Request>
absl::StatusOr<Prompt> FittingPrompt(const ServedModel& model,
                                     const Request& request, bool can_roll,
                                     StopCheck stop) {
  worker::EncodeLimits limits = {.stop = stop};
  if (!can_roll) limits.max_tokens = model.engine->n_ctx();
  absl::StatusOr<Prompt> prompt = PromptOf(model, request, limits);
  if (!prompt.ok()) return EncodeStatus(prompt.status(), limits);
  return prompt;
}

// Holds the reply's calls of tools.
absl::Status Hold(const v1::ChatPrompt& chat, StopCheck stop,
                  Generation& generation) {
  if (generation.prompt.chat_format != worker::kTemplateFormat) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(worker::SchemaNotes notes,
                   HoldCalls(chat, generation.prompt.reading,
                             generation.model.engine->constraints(), stop,
                             generation.options));
  for (std::string& note : notes) {
    if (generation.constraint_notes.size() == worker::kMaxSchemaNotes) break;
    generation.constraint_notes.push_back(std::move(note));
  }
  return absl::OkStatus();
}

void FillCaller(const Caller& caller, worker::GenerateOptions& options) {
  options.request_id = caller.request_id;
  options.claim = caller.claim;
}

template <typename Request>
absl::StatusOr<Generation> PrepareAny(ServedModel model, const Caller& caller,
                                      Request& request) {
  Generation generation;
  generation.model = std::move(model);
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  ASSIGN_OR_RETURN(generation.options,
                   FromProto(request.sampling(), request.stopping(),
                             request.response(), request.context_policy()));
  RETURN_IF_ERROR(FillRoll(request.roll(), generation.options));
  FillCaller(caller, generation.options);
  RETURN_IF_ERROR(caller.stop());
  ASSIGN_OR_RETURN(generation.constraint_notes,
                   FillConstraint(request, generation.options, caller.stop,
                                  &generation.model.engine->constraints()));
  const bool can_roll =
      generation.options.roll.policy == worker::ContextPolicy::kRoll;
  ASSIGN_OR_RETURN(generation.prompt, FittingPrompt(generation.model, request,
                                                    can_roll, caller.stop));
  RETURN_IF_ERROR(caller.stop());
  generation.options.prompt_ids = std::move(generation.prompt.ids);
  generation.options.tool_markers = generation.prompt.tool_markers;
  if (generation.prompt.reading) {
    generation.options.shown_tokens =
        worker::TokensToShow(generation.prompt.reading->format,
                             generation.model.engine->tokenizer());
  }
  if constexpr (requires { request.chat(); }) {
    if (request.has_chat()) {
      RETURN_IF_ERROR(Hold(request.chat(), caller.stop, generation));
    }
  }
  generation.prompt.text = {};
  request.clear_input();
  caller.held.Shrink(HeldBytes(request, generation.options.prompt_ids));
  return generation;
}

// A refusal of Engine::Submit of so many tokens, with details.
absl::Status Refusal(absl::Status status, const ServedModel& model,
                     size_t n_prompt) {
  switch (status.code()) {
    case absl::StatusCode::kOutOfRange:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_PROMPT_TOO_LONG,
                          {{"prompt_tokens", absl::StrCat(n_prompt)},
                           {"n_ctx", absl::StrCat(model.engine->n_ctx())}},
                          std::nullopt});
    case absl::StatusCode::kResourceExhausted:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_QUEUE_FULL, {}, kQueueRetry});
    case absl::StatusCode::kUnavailable:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_MODEL_NOT_READY, {}, kQueueRetry});
    default:
      return SessionStatus(std::move(status));
  }
}

}  // namespace

absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   v1::GenerateRequest& request) {
  ASSIGN_OR_RETURN(Generation generation,
                   PrepareAny(std::move(model), caller, request));
  const worker::GenerateOptions& options = generation.options;
  const bool can_roll = options.roll.policy == worker::ContextPolicy::kRoll;
  if (can_roll &&
      (options.max_tokens < 1 || options.max_tokens > kMaxUnaryTokens)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stopping.max_tokens: a context that rolls does not end a reply, so it "
        "must be 1 to ",
        kMaxUnaryTokens, ", got ", options.max_tokens,
        "; a stream has no such limit"));
  }
  return generation;
}

absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   v1::StreamGenerateRequest& request) {
  return PrepareAny(std::move(model), caller, request);
}

absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   v1::ChatRequest& request) {
  Generation generation;
  generation.model = std::move(model);
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  const worker::Engine& engine = *generation.model.engine;
  ASSIGN_OR_RETURN(generation.options,
                   FromProto(request.sampling(), request.stopping(),
                             request.response(), v1::CONTEXT_POLICY_ROLL));
  worker::GenerateOptions& options = generation.options;
  FillCaller(caller, options);
  ASSIGN_OR_RETURN(generation.constraint_notes,
                   FillConstraint(request, options, caller.stop,
                                  &generation.model.engine->constraints()));
  options.session_id = request.session_id();
  const auto session =
      engine.GetSession(options.session_id, options.claim.tenant);
  if (!session.ok()) return SessionStatus(session.status());
  // A message must fit: what rolls out of the context are earlier turns.
  const worker::EncodeLimits limits = {.max_tokens = engine.n_ctx(),
                                       .stop = caller.stop};
  auto ids = worker::EncodeContent(engine.tokenizer(), session->format,
                                   request.message(), limits);
  if (!ids.ok()) return EncodeStatus(ids.status(), limits);
  options.prompt_ids = *std::move(ids);
  if (options.prompt_ids.empty()) {
    return absl::InvalidArgumentError("message: it is empty");
  }
  generation.prompt.chat_format =
      std::string(worker::ChatFormatName(session->format));
  request.clear_message();
  caller.held.Shrink(HeldBytes(request, options.prompt_ids));
  return generation;
}

absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   const v1::ScoreRequest& request) {
  Generation generation;
  generation.model = std::move(model);
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  FillCaller(caller, generation.options);
  ASSIGN_OR_RETURN(generation.prompt,
                   FittingPrompt(generation.model, request,
                                 /*can_roll=*/false, caller.stop));
  if (generation.prompt.ids.empty()) {
    return absl::InvalidArgumentError(
        "input: the prompt is empty, so nothing comes before a continuation");
  }
  worker::GenerateOptions& options = generation.options;
  options.sampling.temperature = 0;
  options.max_tokens = 1;  // the least there is; nobody reads it
  options.prompt_logprobs = true;
  options.first_scored = static_cast<int64_t>(generation.prompt.ids.size());
  return generation;
}

v1::PromptInfo DescribePrompt(const Generation& generation,
                              const std::string& request_id) {
  v1::PromptInfo info;
  SetPrompt(generation, generation.options.prompt_ids, request_id, info);
  info.set_n_ctx(ToUint32(generation.model.engine->n_ctx()));
  return info;
}

absl::Status Submit(const ServedModel& model, worker::GenerateOptions options,
                    std::shared_ptr<worker::TokenSink> sink) {
  const size_t n_prompt = options.prompt_ids.size();
  const absl::Status status =
      model.engine->Submit(std::move(options), std::move(sink));
  return status.ok() ? status : Refusal(status, model, n_prompt);
}

absl::Status SessionStatus(absl::Status status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return WithDetails(
          std::move(status),
          {v1::ERROR_REASON_SESSION_NOT_FOUND, {}, std::nullopt});
    case absl::StatusCode::kFailedPrecondition:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_SESSION_BUSY, {}, kQueueRetry});
    case absl::StatusCode::kAlreadyExists:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_SESSION_EXISTS, {}, std::nullopt});
    case absl::StatusCode::kResourceExhausted:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_SESSION_LIMIT, {}, kSessionRetry});
    case absl::StatusCode::kUnavailable:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_MODEL_NOT_READY, {}, kQueueRetry});
    default:
      return status;
  }
}

absl::Status EndStatus(absl::Status status) {
  if (HasDetails(status)) return status;
  switch (status.code()) {
    case absl::StatusCode::kOutOfRange:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_CONTEXT_FULL, {}, std::nullopt});
    case absl::StatusCode::kAborted:  // it gave way to another tenant's request
      return WithDetails(absl::ResourceExhaustedError(status.message()),
                         {v1::ERROR_REASON_QUEUE_FULL, {}, kQueueRetry});
    case absl::StatusCode::kNotFound:  // its session did
      return WithDetails(
          std::move(status),
          {v1::ERROR_REASON_SESSION_NOT_FOUND, {}, std::nullopt});
    default:
      return status;
  }
}

}  // namespace plimsoll::services
