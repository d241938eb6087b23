// The tokens that follow the sampled rows of a step, with what was asked for
// about them.
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

// What one draw depends on, besides the logits of its row. What it points to
// outlives the draw.
struct DrawRequest {
  const SamplingOptions& sampling;
  const LogitBiasOptions& logit_bias;
  const RecentTokens* recent;      // null without penalties
  TokenMask* mask;                 // null where any token may come
  std::span<const int32_t> draft;  // guessed tokens of this step
  int64_t most_draft_tokens;       // that a step may have
  int64_t n_generated;             // the draw's index in its stream
  int top_logprobs;                // as of GenerateOptions; -1 = none
};

// Keeps scratch between steps; used from the step thread only.
class RowSampler {
 public:
  // `model` and `backend` outlive it. Has room for steps of at most `n_sampled`
  // sampled rows: no draw allocates but what a constraint does.
  RowSampler(Model& model, kernels::Backend& backend, int64_t vocab_size,
             int64_t n_sampled);

  // What the draws `requests` look at of the logits of their rows, one
  // each; empty if one looks at everything. Where the step `keeps_rows`, so
  // that the model can compute logits again, it may turn out later that they
  // look at more. Holds until it is asked again.
  std::span<const kernels::TopOutputs> LookedAt(
      std::span<const DrawRequest> requests, bool keeps_rows);

  // Finds the candidates of all sampled rows of the model's last step: row i is
  // that of `requests[i]`, and the step's row `rows[i]`, which outlives the
  // draws.
  // Errors: those of the backend.
  absl::Status Begin(std::span<const DrawRequest> requests,
                     std::span<const int32_t> rows);

  // Draws the token of sampled row `row`; its candidates go
  // into `room`.
  // Errors: kInternal if its logits are not finite.
  absl::StatusOr<TokenOutput> Draw(const DrawRequest& request, int64_t row,
                                   std::vector<Candidate> room = {});

 private:
  // The draw's token, from the candidates if they decide it.
  absl::StatusOr<int32_t> DrawToken(const DrawRequest& request);
  // The token if `sorted` decide it, the first ones of all tokens in order;
  // `is_changed` by biases and penalties.
  std::optional<int32_t> DrawFrom(const DrawRequest& request,
                                  std::span<const LogitEntry> sorted,
                                  bool is_changed);
  // The same of the tokens that the request's constraint allows.
  std::optional<int32_t> DrawAllowedFrom(const DrawRequest& request,
                                         std::span<const LogitEntry> sorted);
  // The candidates after biases and penalties, in order, as far as no other
  // token can be among them.
  std::span<const LogitEntry> ChangedCandidates(const DrawRequest& request);
  // The same with the tokens that a bias lifts, by their own logits; empty if
  // they are none, or many.
  std::span<const LogitEntry> LiftedCandidates(const DrawRequest& request);
  // Adds one of the tokens that these know, by its logit before the changes.
  void AddChanged(const DrawRequest& request, const LogitEntry& entry);
  // The known tokens that come before all others.
  std::span<const LogitEntry> FirstOfChanged(const DrawRequest& request);
  // The token by the row's `logits`, all of them.
  absl::StatusOr<int32_t> DrawFromAll(const DrawRequest& request,
                                      std::span<const float> logits);
  // The same after biases and penalties, on a copy of the row.
  absl::StatusOr<int32_t> DrawFromChangedRow(const DrawRequest& request);
  // The same of a row that is on a device, which draws from it itself.
  absl::StatusOr<int32_t> DrawOnDevice(const DrawRequest& request);
  // Says how likely the token is, and which ones were the likeliest.
  void AddLogprobs(const DrawRequest& request, TokenOutput& token);

  // The logits of the row that is drawn from, in the host's memory.
  std::span<const float> RowLogits() const;
  // The same where all are looked at after all: those that were left out are
  // computed, of all sampled rows.
  absl::StatusOr<std::span<const float>> AllLogits();

  Model& model_;
  kernels::Backend& backend_;
  int64_t vocab_size_;
  int64_t n_sampled_;
  Sampler sampler_;
  std::vector<kernels::TopOutputs> looked_at_;
  std::vector<int32_t> changed_ids_;  // of all rows that are looked at
  std::span<const int32_t> rows_;     // of the step, that are sampled
  bool has_all_ = true;               // of their logits
  int64_t n_candidates_ = 0;          // of each sampled row of this step
  std::vector<float> values_;
  std::vector<int32_t> ids_;
  std::vector<double> log_sum_exp_;
  std::vector<float> inverse_temperatures_;    // of plain draws; otherwise 1
  std::vector<double> masses_;                 // at these, if a draw is plain
  int64_t row_ = 0;                            // the row at hand
  kernels::SampledToken sampled_ = {};         // of DrawOnDevice
  std::vector<kernels::LogitChange> changes_;  // for it
  std::vector<LogitEntry> sorted_;             // candidates of the row at hand
  std::vector<int32_t> known_ids_;             // of best_, ascending
  // [vocab], of rows of the host; planner/layout/runtime_profile counts it.
  std::vector<float> biased_;
  std::vector<LogitEntry> best_;     // after biases and penalties
  std::vector<LogitEntry> allowed_;  // of the likeliest, in their order
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_ROW_SAMPLER_H_
