// Draws the tokens that follow a step's sampled rows, and reports the requested
// data about them.
#ifndef PLIMSOLL_WORKER_SAMPLING_ROW_SAMPLER_H_
#define PLIMSOLL_WORKER_SAMPLING_ROW_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/graph/model.h"
#include "worker/sampling/logit_bias.h"
#include "worker/sampling/sampler.h"
#include "worker/sampling/token_output.h"
#include "worker/text/grammar/token_mask.h"

namespace plimsoll::worker {

// The inputs of one draw, besides the logits of its row. The objects behind its
// pointers outlive the draw.
struct DrawRequest {
  const SamplingOptions& sampling;
  const LogitBiasOptions& logit_bias;
  const RecentTokens* recent;      // null without penalties
  TokenMask* mask;                 // null if any token may come
  std::span<const int32_t> draft;  // guessed tokens of this step
  int64_t most_draft_tokens;       // draft tokens that a step may have
  int64_t n_generated;             // the draw's index in its stream
  int top_logprobs;                // candidates to report; -1 = none
  // The token that comes without a draw; absent: one is drawn.
  std::optional<int32_t> forced = std::nullopt;
};

// Whether the model can compute more logits of a step's rows after the step.
enum class LogitsLater { kPossible, kImpossible };

// Keeps scratch between steps. Used from the step thread only.
class RowSampler {
 public:
  // `model` and `backend` outlive the object. A step has at most `n_sampled`
  // sampled rows. No draw allocates, except for what a constraint allocates.
  RowSampler(Model& model, kernels::Backend& backend, int64_t vocab_size,
             int64_t n_sampled);

  // Bytes of host memory for the candidates of a step: the plan's region
  // candidates.
  int64_t CandidateBytes() const;

  // Returns the logits that the draws `requests` require: one entry for each
  // sampled row, or no entry if any of the draws requires all logits. If the
  // host can read more logits later, a draw may still turn out to need them.
  // Valid until the next call.
  std::span<const kernels::TopOutputs> RequiredLogits(
      std::span<const DrawRequest> requests, LogitsLater later);

  // Finds the candidates of all sampled rows of the model's last step. Row i
  // belongs to `requests[i]` and is the step's row `rows[i]`. `rows` outlives
  // the draws.
  // Errors: those of the backend.
  absl::Status Begin(std::span<const DrawRequest> requests,
                     std::span<const int32_t> rows);

  // Draws the token of sampled row `row`. Its candidates are put into `buffer`,
  // whose memory they use.
  // Errors: kInternal if the row's logits are not finite.
  absl::StatusOr<TokenOutput> Draw(const DrawRequest& request, int64_t row,
                                   std::vector<Candidate> buffer = {});

 private:
  // Takes `id` for the drawn token.
  absl::StatusOr<int32_t> TakeForced(const DrawRequest& request, int32_t id);
  // Draws the token, from the candidates if they decide it.
  absl::StatusOr<int32_t> DrawToken(const DrawRequest& request);
  // Draws the token if `sorted`, the first of all tokens in order, decide it.
  // `is_changed` says whether biases and penalties have changed their logits.
  std::optional<int32_t> DrawFrom(const DrawRequest& request,
                                  std::span<const LogitEntry> sorted,
                                  bool is_changed);
  // Draws the token if the allowed tokens of `sorted` decide it.
  std::optional<int32_t> DrawAllowedFrom(const DrawRequest& request,
                                         std::span<const LogitEntry> sorted);
  // The candidates after biases and penalties, in order. Ends before the first
  // place where a token that is no candidate might come.
  std::span<const LogitEntry> ChangedCandidates(const DrawRequest& request);
  // Adds the tokens that a bias lifts to the changed candidates. Their logits
  // are looked up. Empty if a bias lifts no token, or many.
  std::span<const LogitEntry> LiftedCandidates(const DrawRequest& request);
  // Adds one token to the changed candidates, by its logit before the changes.
  void AddChanged(const DrawRequest& request, const LogitEntry& entry);
  // The changed candidates that certainly come before all other tokens.
  std::span<const LogitEntry> FirstOfChanged(const DrawRequest& request);
  // Draws the token from a whole row of `logits`.
  absl::StatusOr<int32_t> DrawFromAll(const DrawRequest& request,
                                      std::span<const float> logits);
  // Applies biases and penalties to a copy of the row, and draws from that.
  absl::StatusOr<int32_t> DrawFromChangedRow(const DrawRequest& request);
  // Makes the device draw from a row in its memory.
  absl::StatusOr<int32_t> DrawOnDevice(const DrawRequest& request);
  // Reports the token's log-probability, and the likeliest tokens.
  void AddLogprobs(const DrawRequest& request, TokenOutput& token);

  // The current row's logits, in the host's memory.
  std::span<const float> RowLogits() const;
  // All logits of the current row. Logits that the step left out are computed
  // first, for all sampled rows.
  absl::StatusOr<std::span<const float>> AllLogits();

  Model& model_;
  kernels::Backend& backend_;
  int64_t vocab_size_;
  int64_t n_sampled_;
  Sampler sampler_;
  std::vector<kernels::TopOutputs> required_;  // RequiredLogits returns it
  std::vector<int32_t> changed_ids_;           // ids that `required_` points to
  std::span<const int32_t> rows_;              // the step's sampled rows
  bool has_all_ = true;                        // all logits were computed
  int64_t n_candidates_ = 0;  // candidates for each sampled row of this step
  std::vector<float> values_;
  std::vector<int32_t> ids_;
  std::vector<double> log_sum_exp_;
  std::vector<float> inverse_temperatures_;    // 1 if a draw is not plain
  std::vector<double> masses_;                 // sums at these temperatures
  int64_t row_ = 0;                            // the current row
  kernels::SampledToken sampled_ = {};         // DrawOnDevice receives it
  std::vector<kernels::LogitChange> changes_;  // DrawOnDevice sends them
  std::vector<uint64_t> only_;                 // the mask of a forced token
  std::vector<LogitEntry> sorted_;             // the current row's candidates
  std::vector<int32_t> known_ids_;             // ids of best_, ascending
  // [vocab]; only if rows are in the host's memory. The plan counts it
  // (planner/layout/runtime_profile).
  std::vector<float> biased_;
  std::vector<LogitEntry> best_;     // after biases and penalties
  std::vector<LogitEntry> allowed_;  // candidates that a constraint allows
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_ROW_SAMPLER_H_
