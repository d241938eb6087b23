#include "worker/engine/check_request.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

absl::Status CheckStops(const GenerateOptions& options) {
  if (options.stop_strings.size() > GenerateOptions::kMaxStopStrings) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop_strings: at most ", GenerateOptions::kMaxStopStrings,
                     " are allowed, got ", options.stop_strings.size()));
  }
  for (const std::string& stop : options.stop_strings) {
    if (stop.empty() ||
        stop.size() > size_t{GenerateOptions::kMaxStopStringBytes}) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stop_strings: each must have 1 to ",
          GenerateOptions::kMaxStopStringBytes, " bytes, got ", stop.size()));
    }
  }
  if (options.stop_tokens.size() > GenerateOptions::kMaxStopTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop_tokens: at most ", GenerateOptions::kMaxStopTokens,
                     " are allowed, got ", options.stop_tokens.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckIds(absl::string_view field, const std::vector<int32_t>& ids,
                      int32_t vocab_size) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": ", id, " is outside the vocabulary of ",
                       vocab_size, " tokens"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReasoning(const ReasoningLimit& limit, int32_t vocab_size) {
  if (limit.max_tokens < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reasoning.max_tokens must not be negative, got ", limit.max_tokens));
  }
  if (limit.end.empty()) {
    return absl::InvalidArgumentError(
        "reasoning.end: no token ends the reasoning");
  }
  return CheckIds("reasoning.end", limit.end, vocab_size);
}

}  // namespace

absl::Status CheckRequest(const GenerateOptions& options, int64_t n_ctx,
                          int32_t vocab_size) {
  RETURN_IF_ERROR(ValidateSampling(options.sampling));
  RETURN_IF_ERROR(ValidateLogitBias(options.logit_bias, vocab_size));
  RETURN_IF_ERROR(CheckStops(options));
  if (static_cast<int64_t>(options.request_id.size()) >
      GenerateOptions::kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request_id: at most ", GenerateOptions::kMaxRequestIdBytes,
        " bytes are allowed, got ", options.request_id.size()));
  }
  if (options.max_tokens < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_tokens must not be negative, got ", options.max_tokens));
  }
  if (options.top_logprobs < -1 ||
      options.top_logprobs > GenerateOptions::kMaxTopLogprobs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top_logprobs must be in [0, ", GenerateOptions::kMaxTopLogprobs,
        "], got ", options.top_logprobs));
  }
  if (options.reasoning) {
    RETURN_IF_ERROR(CheckReasoning(*options.reasoning, vocab_size));
  }
  if (options.constraint != nullptr && options.ignore_eos) {
    return absl::InvalidArgumentError(
        "ignore_eos: a reply with a constraint ends where it is complete; "
        "leave out one or the other");
  }
  if (options.first_scored < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_scored: nothing comes before token 0, got ",
                     options.first_scored));
  }
  if (options.prompt_ids.empty()) {
    return absl::InvalidArgumentError(
        "the prompt is empty: it has no token to continue");
  }
  RETURN_IF_ERROR(CheckIds("prompt_ids", options.prompt_ids, vocab_size));
  if (options.prompt_logprobs && !options.session_id.empty()) {
    return absl::InvalidArgumentError(
        "prompt_logprobs: a session has none; ask without one");
  }
  const auto n_prompt = static_cast<int64_t>(options.prompt_ids.size());
  const bool can_roll = options.roll.policy == ContextPolicy::kRoll;
  if (n_prompt > n_ctx && !can_roll) {
    return absl::OutOfRangeError(absl::StrCat(
        "the prompt has ", n_prompt, " tokens, the context of a slot ", n_ctx,
        ": shorten the prompt, load the model with a larger n_ctx, or let "
        "the context roll"));
  }
  return absl::OkStatus();
}

absl::Status CheckHasEnd(const GenerateOptions& options) {
  const bool has_end = options.roll.policy != ContextPolicy::kRoll ||
                       options.max_tokens > 0 ||
                       options.deadline != absl::InfiniteFuture();
  if (has_end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "max_tokens: a context that rolls does not end a reply, and the model "
      "was loaded without preemption, so that nobody else would get the slot: "
      "set max_tokens or a deadline");
}

absl::Status CheckSession(const SessionOptions& options, int32_t vocab_size) {
  const auto id_bytes = static_cast<int64_t>(options.id.size());
  if (id_bytes < 1 || id_bytes > SessionOptions::kMaxIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("session_id: 1 to ", SessionOptions::kMaxIdBytes,
                     " bytes are allowed, got ", id_bytes));
  }
  if (options.ttl <= absl::ZeroDuration() ||
      options.ttl > SessionOptions::kMaxTtl) {
    return absl::InvalidArgumentError(
        absl::StrCat("ttl: above 0 and at most ",
                     absl::FormatDuration(SessionOptions::kMaxTtl),
                     " is allowed, got ", absl::FormatDuration(options.ttl)));
  }
  const size_t n_turns = options.turns.size() + options.said.size();
  if (static_cast<int64_t>(n_turns) > SessionOptions::kMaxTurns) {
    return absl::InvalidArgumentError(
        absl::StrCat("turns: at most ", SessionOptions::kMaxTurns,
                     " are allowed, got ", n_turns));
  }
  for (const SessionTurn& turn : options.turns) {
    RETURN_IF_ERROR(CheckIds("turns.message", turn.content, vocab_size));
    RETURN_IF_ERROR(CheckIds("turns.reply", turn.reply, vocab_size));
  }
  const ChatFrame& frame = options.frame;
  RETURN_IF_ERROR(CheckIds("frame.opening", frame.opening, vocab_size));
  RETURN_IF_ERROR(CheckIds("frame.after_user", frame.after_user, vocab_size));
  return CheckIds("frame.after_reply", frame.after_reply, vocab_size);
}

}  // namespace plimsoll::worker
