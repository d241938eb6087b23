#include "services/worker/calls/score_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/generation/call_errors.h"
#include "services/generation/message_bytes.h"
#include "services/server/call.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

absl::StatusOr<std::vector<int32_t>> IdsOf(const ServedModel& model,
                                           const v1::Continuation& one,
                                           StopCheck stop) {
  const worker::Tokenizer& tokenizer = model.engine->tokenizer();
  switch (one.content_case()) {
    case v1::Continuation::kText:
      RETURN_IF_ERROR(tokenizer.CheckFits(tokenizer.LeastBytes(one.text()),
                                          model.engine->n_ctx()));
      return tokenizer.Encode(one.text(), worker::ParseSpecial::kNo, stop);
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
  const int64_t n_ctx = generation.model.engine->n_ctx();
  if (static_cast<int64_t>(n_tokens) <= n_ctx) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("with the prompt it has ", n_tokens,
                   " tokens, the context of a slot ", n_ctx,
                   ": shorten one of them, or load the model with a larger "
                   "n_ctx"));
}

// The continuations' token ids. `held` gets what the call holds from now on.
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
    auto ids = IdsOf(generation.model, request.continuations(i), stop);
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
  RETURN_IF_ERROR(held.Resize(ScoreBytes(n_ids, reply_bytes)));
  return continuations;
}

}  // namespace

ScoreCall::ScoreCall(grpc::CallbackServerContext& context, const CallRoom& room,
                     v1::ScoreResponse& response)
    : CallReactor(context, room),
      deadline_(start_ + UnaryTimeLeft()),
      response_(response) {}

ScoreCall* ScoreCall::Start(grpc::CallbackServerContext& context,
                            const CallRoom& room,
                            const v1::ScoreRequest& request,
                            v1::ScoreResponse& response) {
  return CallReactor::Start(
      std::shared_ptr<ScoreCall>(new ScoreCall(context, room, response)), room,
      request, [&request](ScoreCall& call, ServedModel model) {
        return call.Begin(request, std::move(model));
      });
}

absl::Status ScoreCall::Begin(const v1::ScoreRequest& request,
                              ServedModel model) {
  const auto stop = [this] { return preparation_.Check(); };
  ASSIGN_OR_RETURN(Generation generation,
                   PrepareRequest(request, std::move(model), stop));
  ASSIGN_OR_RETURN(auto continuations,
                   Continuations(generation, request, held_, stop));
  SteadyMutexLock lock(&mu_);
  SetPrompt(generation, generation.prompt.ids, request_id_, response_);
  model_ = std::move(generation.model);
  prompt_ = std::move(generation.prompt);
  options_ = std::move(generation.options);
  options_.deadline = deadline_;
  continuations_ = std::move(continuations);
  return SubmitNext();
}

absl::Status ScoreCall::SubmitNext() {
  worker::GenerateOptions options = options_;
  // What was admitted goes on to its end, one continuation after the other.
  options.is_admitted = response_.scores_size() > 0;
  const std::vector<int32_t> ids =
      std::move(continuations_[static_cast<size_t>(response_.scores_size())]);
  v1::ContinuationScore& score = *response_.add_scores();
  score.set_is_greedy(true);
  score.mutable_ids()->Reserve(static_cast<int>(ids.size()));
  score.mutable_logprobs()->Reserve(static_cast<int>(ids.size()));
  for (const int32_t id : ids) score.add_ids(ToUint32(id));

  options.prompt_ids.reserve(prompt_.ids.size() + ids.size());
  options.prompt_ids = prompt_.ids;
  options.prompt_ids.insert(options.prompt_ids.end(), ids.begin(), ids.end());
  return services::Submit(model_, std::move(options), Self());
}

bool ScoreCall::Deliver(worker::StepOutput& output) {
  v1::ContinuationScore& score =
      *response_.mutable_scores(response_.scores_size() - 1);
  for (const worker::PromptScore& one : output.prompt_scores) {
    score.add_logprobs(one.logprob);
    score.set_logprob(score.logprob() + static_cast<double>(one.logprob));
    if (!one.is_best) score.set_is_greedy(false);
  }
  return true;
}

bool ScoreCall::Complete(const absl::Status& status,
                         const worker::FinishInfo& /*info*/) {
  absl::Status end = status;
  const auto n_done = static_cast<size_t>(response_.scores_size());
  if (end.ok() && n_done < continuations_.size()) {
    end = EndStatus(SubmitNext());
    if (end.ok()) return false;
  }
  if (end.ok()) {
    SendRequestId(context_, request_id_);
  } else {
    Free(response_);
  }
  held_.Shrink(MemoryOfReply(response_));
  slow_reader_.Start();
  Finish(EndOfCall(end, request_id_));
  return true;
}

}  // namespace plimsoll::services
