#include "services/worker/calls/score_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/clock.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "services/worker/models/message_bytes.h"

namespace plimsoll::services {
namespace {

absl::StatusOr<std::vector<int32_t>> IdsOf(const LoadedModel& model,
                                           const v1::Continuation& one,
                                           StopCheck stop) {
  const worker::Tokenizer& tokenizer = model.engine->tokenizer();
  switch (one.content_case()) {
    case v1::Continuation::kText:
      RETURN_IF_ERROR(tokenizer.CheckFits(tokenizer.LeastBytes(one.text()),
                                          model.engine->n_ctx()));
      return tokenizer.Encode(one.text(), /*parse_special=*/false, stop);
    case v1::Continuation::kTokens: {
      ASSIGN_OR_RETURN(Prompt prompt, FromIds(model, one.tokens()));
      return std::move(prompt.ids);
    }
    default:
      return absl::InvalidArgumentError("text or tokens is needed");
  }
}

// Looked at before anything is computed.
absl::Status CheckLength(const Generation& generation,
                         const std::vector<int32_t>& ids) {
  if (ids.empty()) return absl::InvalidArgumentError("it has no token");
  const size_t n_tokens = generation.prompt.ids.size() + ids.size();
  const int64_t n_ctx = generation.model->engine->n_ctx();
  if (static_cast<int64_t>(n_tokens) <= n_ctx) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("with the prompt it has ", n_tokens,
                   " tokens, the context of a slot ", n_ctx,
                   ": shorten one of them, or load the model with a larger "
                   "n_ctx"));
}

// As ids; what the call holds from now on is in `held`.
absl::StatusOr<std::vector<std::vector<int32_t>>> Continuations(
    const Generation& generation, const v1::ScoreRequest& request,
    ByteBudget::Share& held, StopCheck stop) {
  const int n = request.continuations_size();
  if (n < 1 || n > kMaxContinuations) {
    return absl::InvalidArgumentError(absl::StrCat(
        "continuations: 1 to ", kMaxContinuations, " are allowed, got ", n));
  }
  std::vector<std::vector<int32_t>> continuations;
  int64_t reply_bytes = WireBytes(generation.prompt.ids) + 1'024;
  auto n_ids = static_cast<int64_t>(generation.prompt.ids.size());
  for (int i = 0; i < n; ++i) {
    auto ids = IdsOf(*generation.model, request.continuations(i), stop);
    const absl::Status status =
        ids.ok() ? CheckLength(generation, *ids) : ids.status();
    if (!status.ok()) {
      absl::Status named(status.code(), absl::StrCat("continuations[", i,
                                                     "]: ", status.message()));
      if (!absl::IsOutOfRange(named)) return named;
      return WithDetails(std::move(named),
                         {v1::ERROR_REASON_PROMPT_TOO_LONG, {}, std::nullopt});
    }
    // Each token comes back with its log-probability.
    n_ids += static_cast<int64_t>(ids->size());
    reply_bytes += WireBytes(*ids) + 4 * static_cast<int64_t>(ids->size()) + 64;
    RETURN_IF_ERROR(
        CheckReplyBytes(reply_bytes, "score fewer continuations at a time"));
    continuations.push_back(*std::move(ids));
  }
  Free(request);
  RETURN_IF_ERROR(held.Settle(ScoreBytes(n_ids, reply_bytes)));
  return continuations;
}

}  // namespace

ScoreCall::ScoreCall(grpc::CallbackServerContext& context,
                     const CallLimits& limits, WorkPool& pool,
                     v1::ScoreResponse& response)
    : request_id_(TakeRequestId(context)),
      deadline_(BootTime() + std::min(TimeLeft(context), kUnaryDeadline)),
      preparation_(context, pool),
      held_(EnterCall(context, limits)),
      response_(response),
      slow_reader_(context, limits.reader_timeout) {}

ScoreCall* ScoreCall::Start(grpc::CallbackServerContext& context,
                            ModelRegistry& registry, const CallLimits& limits,
                            WorkPool& pool, const v1::ScoreRequest& request,
                            v1::ScoreResponse& response) {
  auto call = std::shared_ptr<ScoreCall>(
      new ScoreCall(context, limits, pool, response));
  call->grpc_reference_ = call;
  ScoreCall* const started = call.get();
  // `context` and `request` live until OnDone, which comes after the end.
  call->preparation_.Start(
      context, limits.gate, request, call->pass_, call->held_,
      [call, &context, &registry, &request] {
        return call->Begin(context, registry, request);
      },
      [call](const absl::Status& status) { call->End(status); });
  return started;
}

absl::Status ScoreCall::Begin(grpc::CallbackServerContext& context,
                              ModelRegistry& registry,
                              const v1::ScoreRequest& request) {
  const auto stop = [this] { return preparation_.Check(); };
  ASSIGN_OR_RETURN(
      Generation generation,
      Prepare(registry, {context, request_id_, held_, stop}, request));
  ASSIGN_OR_RETURN(auto continuations,
                   Continuations(generation, request, held_, stop));
  absl::MutexLock lock(&mu_);
  generation_ = std::move(generation);
  continuations_ = std::move(continuations);
  SetPrompt(generation_, generation_.prompt.ids, request_id_, response_);
  return SubmitNext();
}

absl::Status ScoreCall::SubmitNext() {
  worker::GenerateOptions options = generation_.options;
  // What was admitted goes on to its end, one continuation after the other.
  options.is_admitted = response_.scores_size() > 0;
  const std::vector<int32_t> ids =
      std::move(continuations_[static_cast<size_t>(response_.scores_size())]);
  v1::ContinuationScore& score = *response_.add_scores();
  score.set_is_greedy(true);
  score.mutable_ids()->Reserve(static_cast<int>(ids.size()));
  score.mutable_logprobs()->Reserve(static_cast<int>(ids.size()));
  for (const int32_t id : ids) score.add_ids(ToUint32(id));

  const std::vector<int32_t>& prompt_ids = generation_.prompt.ids;
  options.prompt_ids.reserve(prompt_ids.size() + ids.size());
  options.prompt_ids = prompt_ids;
  options.prompt_ids.insert(options.prompt_ids.end(), ids.begin(), ids.end());
  const absl::Time now = BootTime();
  return Submit(*generation_.model, std::move(options), deadline_ - now, now,
                shared_from_this());
}

bool ScoreCall::OnOutput(worker::StepOutput& output) {
  absl::MutexLock lock(&mu_);
  if (is_cancelled_) return true;  // dropped; Abandoned() tells the engine
  v1::ContinuationScore& score =
      *response_.mutable_scores(response_.scores_size() - 1);
  for (const worker::PromptScore& one : output.prompt_scores) {
    score.add_logprobs(one.logprob);
    score.set_logprob(score.logprob() + static_cast<double>(one.logprob));
    if (!one.is_best) score.set_is_greedy(false);
  }
  return true;
}

void ScoreCall::OnEnd(const absl::Status& status,
                      const worker::FinishInfo& /*info*/) {
  absl::Status next = status;
  if (next.ok()) {
    absl::MutexLock lock(&mu_);
    const auto n_done = static_cast<size_t>(response_.scores_size());
    if (n_done < continuations_.size()) {
      next = SubmitNext();
      if (next.ok()) return;
    }
  }
  End(next);
}

void ScoreCall::End(const absl::Status& status) {
  LoadedModel::Use model;  // let go without our lock
  absl::MutexLock lock(&mu_);
  std::swap(model, generation_.model);
  const absl::Status end = EndStatus(status);
  if (!end.ok()) Free(response_);
  held_.Shrink(MemoryOfReply(response_));
  slow_reader_.Start();
  Finish(ToGrpc(end, request_id_));
}

bool ScoreCall::Abandoned() const {
  absl::MutexLock lock(&mu_);
  return is_cancelled_;
}

void ScoreCall::OnCancel() {
  preparation_.Cancel();
  absl::MutexLock lock(&mu_);
  is_cancelled_ = true;
  if (generation_.model) generation_.model->engine->Wake();
}

void ScoreCall::OnDone() {
  {
    absl::MutexLock lock(&mu_);
    slow_reader_.Stop();
  }
  grpc_reference_.reset();
}

}  // namespace plimsoll::services
