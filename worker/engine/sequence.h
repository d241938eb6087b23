// One stream inside the engine: its request, what it has generated, and where
// its output stands.
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
#include "worker/engine/engine.h"
#include "worker/sampling/logit_bias.h"
#include "worker/sampling/prompt_scorer.h"
#include "worker/sampling/row_sampler.h"
#include "worker/sampling/token_history.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/text_stream.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// What a sequence begins with.
struct SequenceStart {
  RollPlan roll;
  TokenHistory history = {};  // the prompt is at its end
  int64_t n_prompt = 0;       // of these, all before the reply
  int64_t n_cached = 0;       // of the prompt, computed by earlier calls
  // Its key in the engine's book.
  std::optional<int64_t> session = std::nullopt;
  std::unique_ptr<TokenMask> mask = nullptr;  // of the reply; null = anything
};

// Owned by the engine; after Submit changed by the step thread only. Others may
// read what never changes, and n_generated().
class Sequence {
 public:
  Sequence(int64_t id, GenerateOptions options, SequenceStart start,
           std::shared_ptr<TokenSink> sink, absl::Time submitted)
      : id_(id),
        options_(std::move(options)),
        sink_(std::move(sink)),
        text_(options_.stop_strings),
        calls_(options_.tool_markers),
        start_(std::move(start)),
        n_scored_(options_.first_scored - 1),
        submitted_(submitted) {
    options_.prompt_ids = {};  // they are in the history
    if (options_.logit_bias.HasPenalty()) {
      const int64_t limit = options_.logit_bias.penalty_last_tokens;
      std::vector<int32_t> newest;
      history().Newest(limit, newest);
      recent_.emplace(newest, limit);
    }
  }

  int64_t id() const { return id_; }
  // Without prompt_ids.
  const GenerateOptions& options() const { return options_; }
  TokenSink& sink() { return *sink_; }
  int64_t n_prompt() const { return start_.n_prompt; }
  int64_t n_generated() const {
    return n_generated_.load(std::memory_order_relaxed);
  }
  absl::Time submitted() const { return submitted_; }

  const RollPlan& roll() const { return start_.roll; }
  // The session that its context is of, if any.
  std::optional<int64_t> session() const { return start_.session; }
  // Its tokens, by position in the cache.
  const TokenHistory& history() const { return start_.history; }
  int64_t n_evictions() const { return n_evictions_; }

  // The tokens that penalties are put on; null without penalties.
  const RecentTokens* recent() const { return recent_ ? &*recent_ : nullptr; }

  // What its next token may be; null where it may be any.
  TokenMask* mask() const { return start_.mask.get(); }

  // Its next draw. Holds until it changes.
  DrawRequest NextDraw() const {
    return {.sampling = options_.sampling,
            .logit_bias = options_.logit_bias,
            .recent = recent(),
            .mask = mask(),
            .draft = draft_,
            .most_draft_tokens = options_.draft_tokens,
            .n_generated = n_generated(),
            .top_logprobs = options_.top_logprobs};
  }

  // Notes that its oldest tokens leave its full context of `n_live` tokens, and
  // says which.
  Leaving Evict(int64_t n_live);

  // The rows, among those of positions [first_position, first_position +
  // n_rows) at step rows from `first_row` on, after which a prompt token comes
  // that was asked for and is not scored yet.
  void AppendUnscored(int64_t first_position, int64_t n_rows, int64_t first_row,
                      ScoredRows& scored) const;
  // Takes what was thought of the next tokens of the prompt.
  void AddScores(const std::vector<PromptScore>& scores);

  // Notes that so many tokens of the prompt are there already.
  void SetCached(int64_t n_tokens) { start_.n_cached = n_tokens; }
  // Notes that all that its context keeps is computed again.
  void ForgetComputed() { start_.history.Restart(); }
  // Numbers of computed tokens at which rings are to be kept, ascending.
  std::vector<int64_t>& keep_rings_at() { return keep_rings_at_; }
  // Tokens that may be guessed to come: 0 unless it decodes and asked for it.
  int64_t MostDrafted() const;
  // The guessed tokens of the next step.
  void SetDraft(std::span<const int32_t> ids) {
    draft_.assign(ids.begin(), ids.end());
  }
  const std::vector<int32_t>& draft() const { return draft_; }
  // Notes how many of them were computed, and how many were right.
  void CountDrafts(int64_t n_drafted, int64_t n_accepted) {
    n_drafted_ += n_drafted;
    n_accepted_ += n_accepted;
  }
  bool has_started() const { return started_.has_value(); }
  // Notes that the first rows are being computed, in a context of `n_ctx`.
  void Started(absl::Time now, int64_t n_ctx);
  // Whether the scheduler was told to leave it out.
  bool is_parked() const { return is_parked_; }
  void set_parked(bool is_parked) { is_parked_ = is_parked; }

  // Room for the candidates of a token: what its sink left of earlier ones.
  std::vector<Candidate> TakeRoom();
  // Takes the token generated for this sequence: collects its output and
  // decides whether it was the last one for a context of `n_ctx` tokens.
  void Accept(TokenOutput token, const Tokenizer& tokenizer, int64_t n_ctx,
              absl::Time now);

  // Offers collected output to the sink. False if the reader is behind.
  bool Flush();
  // True while the reader is behind.
  bool HasOutput() const;

  // Set once nothing more will be generated: the status to end with.
  const std::optional<absl::Status>& end() const { return end_; }
  void End(absl::Status status) {
    if (!end_) end_ = std::move(status);
  }
  // The same for one that has ended well but could not deliver it yet, too.
  void Abort(absl::Status status) {
    if (!end_ || end_->ok()) end_ = std::move(status);
  }
  // Tells the sink. Called once, last.
  void Finish(absl::Time now);

 private:
  // The reason to stop after `token`, or kUnknown to go on.
  FinishReason ReasonToStop(int32_t token, const Tokenizer& tokenizer,
                            int64_t n_ctx) const;

  int64_t id_;
  GenerateOptions options_;
  std::shared_ptr<TokenSink> sink_;
  TextStream text_;
  ToolSilence calls_;
  StepOutput output_;  // not yet taken by the sink
  std::vector<std::vector<Candidate>> rooms_;
  std::vector<int64_t> turns_;  // scratch of Evict
  std::string bytes_;           // of the token at hand
  bool is_parked_ = false;
  SequenceStart start_;
  std::vector<int64_t> keep_rings_at_;
  std::optional<RecentTokens> recent_;
  std::atomic<int64_t> n_generated_ = 0;
  int64_t n_evictions_ = 0;
  int64_t n_evicted_before_ = start_.history.n_evicted();
  std::vector<int32_t> draft_;
  int64_t n_drafted_ = 0;
  int64_t n_accepted_ = 0;
  int64_t n_scored_;  // prompt tokens, those before first_scored included
  FinishReason reason_ = FinishReason::kUnknown;
  std::optional<absl::Status> end_;
  absl::Time submitted_;
  std::optional<absl::Time> started_;
  std::optional<absl::Time> first_token_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_SEQUENCE_H_
