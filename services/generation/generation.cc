#include "services/generation/generation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/generation/call_constraint.h"
#include "services/generation/call_errors.h"
#include "services/generation/message_bytes.h"
#include "services/generation/metered_sink.h"
#include "services/generation/quota_book.h"
#include "services/generation/rendered_session.h"
#include "services/wire/errors.h"
#include "services/wire/generation_from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

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

// True if the reply to a request is one in a conversation, which is rendered.
template <typename Request>
bool IsInChat(const Request& request, const Generation& generation) {
  if constexpr (requires { request.chat(); }) return request.has_chat();
  return generation.options.rendered != nullptr;
}

// Limits the reasoning of a reply, if the request does. Where a chat format
// marks none there is nothing to limit.
template <typename Request>
absl::Status LimitReasoning(const Request& request, Generation& generation) {
  if (!request.stopping().has_max_reasoning_tokens()) return absl::OkStatus();
  if (!IsInChat(request, generation)) {
    return absl::InvalidArgumentError(
        "stopping.max_reasoning_tokens: only a reply to input.chat, or in a "
        "session that recomputes, has marks of reasoning; send the "
        "conversation there, or leave the limit out");
  }
  if (!generation.prompt.reading) return absl::OkStatus();
  generation.options.reasoning = worker::LimitReasoning(
      *generation.prompt.reading, request.stopping().max_reasoning_tokens(),
      generation.model.engine->tokenizer());
  return absl::OkStatus();
}

// Has the reply's text show what its parts are told apart by.
void ShowMarks(Generation& generation) {
  if (!generation.prompt.reading) return;
  generation.options.shown_tokens = worker::TokensToShow(
      generation.prompt.reading->format, generation.model.engine->tokenizer());
}

// Holds the reply's calls of tools.
absl::Status Hold(const v1::ChatPrompt& chat, StopCheck stop,
                  Generation& generation) {
  worker::Engine& engine = *generation.model.engine;
  ASSIGN_OR_RETURN(worker::SchemaNotes notes,
                   HoldCalls(chat, generation.prompt.reading,
                             {engine.tokenizer(), engine.constraints(), stop},
                             generation.options));
  for (std::string& note : notes) {
    if (generation.constraint_notes.size() == worker::kMaxSchemaNotes) break;
    generation.constraint_notes.push_back(std::move(note));
  }
  return absl::OkStatus();
}

// Checks what a tenant's quota says of a single request, whose input has so
// many bytes, and bounds a reply that has no bound.
absl::Status ApplyQuota(const ServedModel& model, size_t n_input_bytes,
                        worker::GenerateOptions& options) {
  if (model.quotas == nullptr) return absl::OkStatus();
  const Quota quota = model.quotas->QuotaOf(options.claim.tenant);
  if (quota.prompt_bytes.has_value() &&
      n_input_bytes > static_cast<size_t>(*quota.prompt_bytes)) {
    return QuotaRefusal({"prompt_bytes", *quota.prompt_bytes, 0,
                         static_cast<int64_t>(n_input_bytes), std::nullopt});
  }
  if (!quota.max_tokens.has_value()) return absl::OkStatus();
  if (options.max_tokens > *quota.max_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("stopping.max_tokens: the tenant's quota is ",
                     *quota.max_tokens, ", got ", options.max_tokens));
  }
  if (options.max_tokens == 0) options.max_tokens = *quota.max_tokens;
  return absl::OkStatus();
}

// The bytes of a request's input on the wire.
template <typename Request>
size_t InputBytes(const Request& request) {
  switch (request.input_case()) {
    case Request::kText:
      return request.text().text().size();
    case Request::kTokens:
      return request.tokens().ByteSizeLong();
    case Request::kChat:
      return request.chat().ByteSizeLong();
    default:
      return 0;
  }
}

size_t InputBytes(const v1::ChatRequest& request) {
  size_t n_bytes = request.message().size();
  for (const v1::ToolResponse& response : request.tool_responses()) {
    n_bytes += response.tool_name().size() + response.content().size();
  }
  return n_bytes;
}

// The bytes that a context of so many tokens takes of a slot.
int64_t KvBytes(const worker::Engine& engine, int64_t n_tokens) {
  int64_t slot = 0;
  for (const worker::EnginePart& part : engine.parts()) {
    slot += part.plan.bytes_per_slot;
  }
  const double share = static_cast<double>(std::min(n_tokens, engine.n_ctx())) /
                       static_cast<double>(engine.n_ctx());
  return static_cast<int64_t>(std::ceil(static_cast<double>(slot) * share));
}

// Charges the sequence to its tenant. Returns the sink that gives back what it
// does not use. Errors: those of QuotaBook::Admit.
absl::StatusOr<std::shared_ptr<worker::TokenSink>> Metered(
    const ServedModel& model, const worker::GenerateOptions& options,
    std::shared_ptr<worker::TokenSink> sink) {
  const worker::Engine& engine = *model.engine;
  QuotaBook::Request request;
  request.tenant = options.claim.tenant;
  request.n_prompt = static_cast<int64_t>(options.prompt_ids.size());
  const bool can_roll = options.roll.policy == worker::ContextPolicy::kRoll;
  const bool has_session = !options.session_id.empty();
  request.n_reply = options.max_tokens;
  if (request.n_reply == 0) {
    request.n_reply =
        engine.n_ctx() - (can_roll || has_session ? 0 : request.n_prompt);
    request.n_reply = std::max(request.n_reply, int64_t{1});
  }
  request.kv_bytes =
      KvBytes(engine, has_session ? engine.n_ctx()
                                  : request.n_prompt + request.n_reply);
  request.is_admitted = options.is_admitted;
  ASSIGN_OR_RETURN(auto hold, model.quotas->Admit(request));
  ReceiptDraft draft = {.file = model.quotas->usage_file()};
  draft.receipt.request_id = options.request_id;
  draft.receipt.tenant = request.tenant;
  draft.receipt.model = model.name;
  draft.receipt.kv_bytes = request.kv_bytes;
  return std::make_shared<MeteredSink>(std::move(hold), std::move(draft),
                                       std::move(sink));
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
  generation.has_token_bytes = request.response().token_bytes();
  FillCaller(caller, generation.options);
  RETURN_IF_ERROR(
      ApplyQuota(generation.model, InputBytes(request), generation.options));
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
  RETURN_IF_ERROR(LimitReasoning(request, generation));
  if (!generation.prompt.splits_reply) generation.prompt.reading.reset();
  ShowMarks(generation);
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

// Says the message of a request in a session that keeps its context.
absl::Status Say(const v1::ChatRequest& request,
                 const worker::SessionInfo& session, const Caller& caller,
                 Generation& generation) {
  RETURN_IF_ERROR(LimitReasoning(request, generation));
  if (request.tool_responses_size() > 0 || !request.required_tool().empty() ||
      request.tool_choice() == v1::TOOL_CHOICE_REQUIRED) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.tool_responses_size() > 0 ? "tool_responses" : "tool_choice",
        ": the session was opened without tools"));
  }
  // A message must fit: what rolls out of the context are earlier turns.
  const worker::Engine& engine = *generation.model.engine;
  const worker::EncodeLimits limits = {.max_tokens = engine.n_ctx(),
                                       .stop = caller.stop};
  auto ids =
      EncodeMessage(session, engine.tokenizer(), request.message(), limits);
  if (!ids.ok()) return EncodeStatus(ids.status(), limits);
  generation.options.prompt_ids = *std::move(ids);
  if (request.message().empty() || generation.options.prompt_ids.empty()) {
    return absl::InvalidArgumentError("message: it is empty");
  }
  return absl::OkStatus();
}

// Says the message of a request in a session that keeps texts.
absl::Status SayWithTexts(const v1::ChatRequest& request,
                          const worker::SessionInfo& session,
                          const Caller& caller, Generation& generation) {
  const worker::Engine& engine = *generation.model.engine;
  worker::GenerateOptions& options = generation.options;
  auto rendered =
      RenderMessage(engine, session, request,
                    {.max_tokens = options.max_tokens, .stop = caller.stop});
  if (!rendered.ok()) {
    return EncodeStatus(rendered.status(), {.max_tokens = engine.n_ctx()});
  }
  options.prompt_ids = std::move(rendered->ids);
  options.rendered = std::move(rendered->chat);
  generation.prompt.reading = options.rendered->reading;
  RETURN_IF_ERROR(LimitReasoning(request, generation));
  ShowMarks(generation);
  if (!v1::ToolChoice_IsValid(request.tool_choice())) {
    return absl::InvalidArgumentError("tool_choice is not a known choice");
  }
  v1::ChatPrompt calls;
  calls.set_tool_choice(request.tool_choice());
  calls.set_required_tool(request.required_tool());
  if (request.has_parallel_tool_calls()) {
    calls.set_parallel_tool_calls(request.parallel_tool_calls());
  }
  return Hold(calls, caller.stop, generation);
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
  generation.has_token_bytes = request.response().token_bytes();
  FillCaller(caller, options);
  RETURN_IF_ERROR(ApplyQuota(generation.model, InputBytes(request), options));
  ASSIGN_OR_RETURN(generation.constraint_notes,
                   FillConstraint(request, options, caller.stop,
                                  &generation.model.engine->constraints()));
  options.session_id = request.session_id();
  const auto session =
      engine.GetSession(options.session_id, options.claim.tenant);
  if (!session.ok()) return SessionStatus(session.status());
  generation.prompt.chat_format = std::string(session->format_name());
  RETURN_IF_ERROR(session->chat != nullptr
                      ? SayWithTexts(request, *session, caller, generation)
                      : Say(request, *session, caller, generation));
  request.clear_message();
  request.clear_tool_responses();
  caller.held.Shrink(HeldBytes(request, options.prompt_ids));
  return generation;
}

absl::StatusOr<Generation> Prepare(ServedModel model, const Caller& caller,
                                   const v1::ScoreRequest& request) {
  Generation generation;
  generation.model = std::move(model);
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  FillCaller(caller, generation.options);
  worker::GenerateOptions& options = generation.options;
  RETURN_IF_ERROR(ApplyQuota(generation.model, InputBytes(request), options));
  ASSIGN_OR_RETURN(generation.prompt,
                   FittingPrompt(generation.model, request,
                                 /*can_roll=*/false, caller.stop));
  if (generation.prompt.ids.empty()) {
    return absl::InvalidArgumentError(
        "input: the prompt is empty, so nothing comes before a continuation");
  }
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
  if (model.quotas != nullptr) {
    ASSIGN_OR_RETURN(sink, Metered(model, options, std::move(sink)));
  }
  const absl::Status status =
      model.engine->Submit(std::move(options), std::move(sink));
  return status.ok() ? status : Refusal(status, model, n_prompt);
}

}  // namespace plimsoll::services
