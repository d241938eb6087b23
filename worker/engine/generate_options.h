// What a client asks an engine to generate: one request, already tokenised.
#ifndef PLIMSOLL_WORKER_ENGINE_GENERATE_OPTIONS_H_
#define PLIMSOLL_WORKER_ENGINE_GENERATE_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/cache/roll_plan.h"
#include "worker/sampling/logit_bias.h"
#include "worker/sampling/sampler.h"
#include "worker/scheduling/fair_queue.h"
#include "worker/text/chat/reasoning_limit.h"

namespace plimsoll::worker {

struct Grammar;
struct RenderedChat;

// One request.
struct GenerateOptions {
  // Limits. Each has a test at the limit and one past it.
  static constexpr int kMaxStopStrings = 16;
  static constexpr int64_t kMaxStopStringBytes = 256;
  static constexpr int kMaxStopTokens = 64;
  static constexpr int kMaxTopLogprobs = 64;
  static constexpr int64_t kMaxRequestIdBytes = 128;

  std::vector<int32_t> prompt_ids;
  std::string request_id;  // for Abort and Requests; need not be unique
  int64_t max_tokens = 0;  // 0 = until the context is full
  SamplingOptions sampling;
  LogitBiasOptions logit_bias;
  std::vector<std::string> stop_strings;  // the text leaves them out
  std::vector<int32_t> stop_tokens;
  // The reply goes on after end tokens, which can still be drawn.
  bool ignore_eos = false;
  // The reply must be a text of this grammar; null allows any text. With a
  // grammar the reply ends with an end token, and that token can be drawn only
  // where the text is complete.
  std::shared_ptr<const Grammar> constraint;
  // Control tokens, in ascending order, whose texts are part of the reply's
  // text; the texts of others are not.
  std::vector<int32_t> shown_tokens;
  // How long the reply may reason; absent: as long as it likes. A constraint
  // that forbids the end of the reasoning comes before it.
  std::optional<ReasoningLimit> reasoning;
  // Candidates reported for each token. -1 reports neither candidates nor
  // log-probabilities; 0 reports the log-probability of the drawn token only.
  int top_logprobs = -1;
  // Reports the log-probabilities of the prompt's tokens, beginning with the
  // token of index first_scored, which is at least 1.
  bool prompt_logprobs = false;
  int64_t first_scored = 1;
  // A step may compute this many guessed tokens beside the newest known one, at
  // most the plan's n_draft; 0 guesses nothing. The drawn tokens do not depend
  // on it. Absent: n_draft if an MTP head guesses, else 0.
  std::optional<int64_t> draft_tokens = std::nullopt;
  RollOptions roll;  // says what a full context does
  absl::Time deadline = absl::InfiniteFuture();  // on the engine's clock
  Claim claim;                                   // who asks
  // The request continues a call that was admitted before. The queue's limit
  // does not apply to it, it is the next one of its tenant and priority, and a
  // draining engine accepts it.
  bool is_admitted = false;
  // The session that receives prompt_ids as the content of a user's message.
  // The session belongs to the claim's tenant, and its context and its way to
  // roll apply. Empty = no session.
  std::string session_id;
  // For a session with texts: prompt_ids are the whole chat with the message,
  // and this says what was rendered. Null otherwise.
  std::shared_ptr<const RenderedChat> rendered;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_GENERATE_OPTIONS_H_
