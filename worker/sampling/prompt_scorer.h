// Computes the log-probabilities of a prompt's tokens, each given the tokens
// before it.
#ifndef PLIMSOLL_WORKER_SAMPLING_PROMPT_SCORER_H_
#define PLIMSOLL_WORKER_SAMPLING_PROMPT_SCORER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/graph/model.h"
#include "worker/sampling/token_output.h"

namespace plimsoll::worker {

// Rows of the last step to score.
struct ScoredRows {
  std::vector<int32_t> rows;
  std::vector<int32_t> targets;  // targets[i] is the token after rows[i]
};

// Computes a few rows at a time, in the plan's memory for sampled rows, and
// keeps one score for each token. Used from the step thread only.
class PromptScorer {
 public:
  // `model` and `backend` outlive the object. `n_at_once` is the plan's
  // n_sampled.
  PromptScorer(Model& model, kernels::Backend& backend, int64_t n_at_once,
               int64_t vocab_size);

  // Appends the score of every target to `scores`. Replaces the model's logits.
  // Errors: kInternal if logits are not finite; those of the backend.
  absl::Status Score(const ScoredRows& scored,
                     std::vector<PromptScore>& scores);

 private:
  // The model's logit `index`, from the host's or the device's memory.
  absl::StatusOr<float> LogitAt(int64_t index);

  Model& model_;
  kernels::Backend& backend_;
  int64_t n_at_once_;
  int64_t vocab_size_;
  // For each row of the current batch: the best logit, its token (unused), and
  // the logarithm of the sum of all.
  std::vector<float> best_;
  std::vector<int32_t> best_ids_;
  std::vector<double> log_sum_exp_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_PROMPT_SCORER_H_
