// One stream inside the engine: its request, what it has generated, and how far
// its output has come.
#ifndef PLIMSOLL_WORKER_ENGINE_SEQUENCE_H_
#define PLIMSOLL_WORKER_ENGINE_SEQUENCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/cache/roll_plan.h"
#include "worker/engine/engine_observer.h"
#include "worker/engine/generate_options.h"
#include "worker/engine/token_sink.h"
#include "worker/graph/model.h"
#include "worker/sampling/logit_bias.h"
#include "worker/sampling/prompt_scorer.h"
#include "worker/sampling/row_sampler.h"
#include "worker/sampling/token_history.h"
#include "worker/text/chat/reasoning_limit.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/text_stream.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// A request as it came in.
struct Arrival {
  GenerateOptions options;
  std::shared_ptr<TokenSink> sink;
  absl::Time time;
};

// The state with which a sequence begins.
struct SequenceStart {
  RollPlan roll;
  TokenHistory history = {};  // ends with the prompt
  int64_t n_prompt = 0;       // tokens of the context before the reply
  int64_t n_cached = 0;       // prompt tokens that earlier calls computed
  // The tokens that left a session's context before the call.
  std::optional<Eviction> evicted = std::nullopt;
  // The session's key in SessionBook; absent without a session.
  std::optional<int64_t> session = std::nullopt;
  // The reply's mask; null = any text.
  std::unique_ptr<TokenMask> mask = nullptr;
};

// Owned by the engine. After Submit only the step thread changes it; other
// threads may read n_generated() and what never changes.
class Sequence {
 public:
  Sequence(int64_t id, Arrival arrival, SequenceStart start);

  int64_t id() const { return id_; }
  // The request. Its prompt_ids are empty: they are in history().
  const GenerateOptions& options() const { return options_; }
  TokenSink& sink() { return *sink_; }
  int64_t n_prompt() const { return start_.n_prompt; }
  int64_t n_generated() const {
    return n_generated_.load(std::memory_order_relaxed);
  }
  absl::Time submitted() const { return submitted_; }

  const RollPlan& roll() const { return start_.roll; }
  // The key of the session that owns the context, if one does.
  std::optional<int64_t> session() const { return start_.session; }
  // The tokens, by their position in the cache.
  const TokenHistory& history() const { return start_.history; }
  int64_t n_evictions() const { return n_evictions_; }

  // The text of what was generated so far, as the sink gets it.
  std::string ReplyText(const Tokenizer& tokenizer) const;

  // The tokens that penalties apply to; null without penalties.
  const RecentTokens* recent() const { return recent_ ? &*recent_ : nullptr; }

  // The mask of allowed next tokens; null if every token is allowed.
  TokenMask* mask() const { return start_.mask.get(); }

  // The next draw. Valid until the sequence changes.
  DrawRequest NextDraw() const {
    return {.sampling = options_.sampling,
            .logit_bias = options_.logit_bias,
            .recent = recent(),
            .mask = mask(),
            .draft = draft_,
            .most_draft_tokens = draft_tokens(),
            .n_generated = n_generated(),
            .top_logprobs = options_.top_logprobs,
            .forced = forced_};
  }

  // Evicts the oldest tokens of the full context, which has `n_live` tokens.
  // Returns what left.
  EvictionPlan Evict(int64_t n_live);

  // Appends those of the step's rows whose next token is a prompt token that
  // still has to be scored.
  void AppendUnscored(const SequenceRows& rows, ScoredRows& scored) const;
  // Takes the scores of the prompt's next tokens.
  void AddScores(const std::vector<PromptScore>& scores);

  // Notes how many tokens of the prompt were in the cache already.
  void SetCached(int64_t n_tokens) { start_.n_cached = n_tokens; }
  // Notes that the whole context must be computed again.
  void ForgetComputed() { start_.history.Restart(); }
  // The numbers of computed tokens after which a snapshot is kept, ascending.
  std::vector<int64_t>& snapshots_at() { return snapshots_at_; }
  const std::vector<int64_t>& snapshots_at() const { return snapshots_at_; }
  // How many tokens may be guessed now: 0 unless the sequence decodes and its
  // request allows guesses.
  int64_t MostDrafted() const;
  // The guessed tokens of the next step.
  void SetDraft(std::span<const int32_t> ids) {
    draft_.assign(ids.begin(), ids.end());
  }
  const std::vector<int32_t>& draft() const { return draft_; }
  // What an MTP head expects after the newest token. It is nothing once another
  // token has come.
  std::span<const int32_t> predicted() const {
    return predicted_after_ == n_generated() ? std::span(predicted_)
                                             : std::span<const int32_t>();
  }
  void ClearPredicted() {
    predicted_.clear();
    predicted_after_ = n_generated();
  }
  void AddPredicted(int32_t id) { predicted_.push_back(id); }
  // Counts guesses that were computed, and those that were right.
  void CountDrafts(int64_t n_drafted, int64_t n_accepted) {
    n_drafted_ += n_drafted;
    n_accepted_ += n_accepted;
  }
  bool has_started() const { return started_.has_value(); }
  // Notes that the first rows are being computed, in a context of `n_ctx`.
  void Started(absl::Time now, int64_t n_ctx);
  // True while the scheduler leaves the sequence out.
  bool is_parked() const { return is_parked_; }
  void set_parked(bool is_parked) { is_parked_ = is_parked; }

  // An empty buffer for a token's candidates. Its memory comes from earlier
  // output that the sink did not keep.
  std::vector<Candidate> ReuseBuffer();
  // Takes the next generated token: collects its output, and ends the sequence
  // if it was the last token for a context of `n_ctx`.
  void Accept(TokenOutput token, const Tokenizer& tokenizer, int64_t n_ctx,
              absl::Time now);

  // Offers the collected output to the sink. Returns false if the reader is
  // behind.
  bool Flush();
  // True while output waits for the reader.
  bool HasOutput() const;

  // The status to end with; absent while tokens may still be generated.
  const std::optional<absl::Status>& end() const { return end_; }
  // Ends the sequence, unless it has ended already.
  void End(absl::Status status) {
    if (!end_) end_ = std::move(status);
  }
  // Ends the sequence even if it has ended well and still holds output.
  void Abort(absl::Status status) {
    if (!end_ || end_->ok()) end_ = std::move(status);
  }
  // Tells the sink, and returns what it told. Called once, last.
  RequestRecord Finish(absl::Time now);

 private:
  int64_t draft_tokens() const { return options_.draft_tokens.value_or(0); }
  // The reason to stop after `token`, or kUnknown to go on.
  FinishReason ReasonToStop(int32_t token, const Tokenizer& tokenizer,
                            int64_t n_ctx) const;
  // Appends the text of a generated token to the reply's text.
  void AppendShown(int32_t token, const Tokenizer& tokenizer,
                   std::string& bytes) const;
  // Finds out whether the limit of reasoning decides the next token.
  void ForceNext();

  int64_t id_;
  GenerateOptions options_;
  std::shared_ptr<TokenSink> sink_;
  TextStream text_;
  StepOutput output_;                            // not yet taken by the sink
  std::vector<std::vector<Candidate>> buffers_;  // for candidates, unused
  std::vector<int64_t> turns_;                   // scratch of Evict
  std::string bytes_;                            // bytes of the token at hand
  bool is_parked_ = false;
  SequenceStart start_;
  std::vector<int64_t> snapshots_at_;
  std::optional<RecentTokens> recent_;
  std::optional<ReasoningGuard> reasoning_;
  std::optional<int32_t> forced_;  // the next token, if it is no draw
  std::atomic<int64_t> n_generated_ = 0;
  int64_t n_evictions_ = 0;
  int64_t n_evicted_before_ = start_.history.n_evicted();
  std::vector<int32_t> draft_;
  std::vector<int32_t> predicted_;
  int64_t predicted_after_ = 0;  // how many tokens had been generated
  int64_t n_drafted_ = 0;
  int64_t n_accepted_ = 0;
  int64_t n_scored_;  // prompt tokens, counted from the first token
  FinishReason reason_ = FinishReason::kUnknown;
  std::optional<absl::Status> end_;
  absl::Time submitted_;
  std::optional<absl::Time> started_;
  std::optional<absl::Time> first_token_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_SEQUENCE_H_
