// Guesses of a model's MTP head.
#ifndef PLIMSOLL_WORKER_ENGINE_MTP_DRAFTS_H_
#define PLIMSOLL_WORKER_ENGINE_MTP_DRAFTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/cache/kv_cache.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/scheduled_step.h"
#include "worker/engine/sequence.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// The head reads each row that the model has computed, together with the token
// after it, and keeps keys and values of its own for them. Its first guess for
// a sequence is the likeliest token after the sequence's newest row. For each
// further guess, the head computes one more row from the guess before. The keys
// and values of these further rows are taken back.
//
// Owned by the engine, used from the step thread only. Keeps its scratch
// between steps: no call allocates.
class MtpDrafts {
 public:
  // `resources`, whose MTP head is loaded, outlive the object.
  explicit MtpDrafts(const EngineResources& resources);

  // Runs the head after a step of the model. `batch` has all rows of `step`,
  // and `step` says which of their guesses were wrong. Tells each sequence that
  // may guess what the head expects after its newest token.
  // Errors: those of the backend.
  absl::Status Run(const ScheduledStep& step, const StepBatch& batch);

 private:
  // A sequence that gets guesses.
  struct Guesser {
    Sequence* sequence;
    int64_t slot;
    int64_t next_position;  // position of its newest token, not computed yet
    int64_t n_wanted;
  };

  // A row that the head computes.
  struct HeadRow {
    int32_t token;  // the one after `position`
    int64_t position;
    int64_t model_row;  // the row of the model, or of the head's last step
  };

  // Makes `batch_` of the rows of a step that stay.
  void BuildBatch(const ScheduledStep& step, const StepBatch& batch);
  // `first_row` is the model's row of the first of `rows`.
  void AppendRows(const ScheduledRows& rows, Sequence& sequence,
                  int64_t first_row);
  // Makes `batch_` of the newest guesses of those sequences that get an `n`-th
  // guess.
  absl::Status BuildNext(int64_t n);
  // Appends a row of the slot's sequence to `batch_`.
  void AppendRow(int64_t slot, const HeadRow& row);
  // Computes `batch_`, and gives its guessers a guess each.
  absl::Status StepAndGuess();
  void ClearBatch();

  Model& head_;
  KvCache& cache_;
  kernels::Backend& backend_;
  const int64_t vocab_size_;
  StepBatch batch_;
  std::vector<Guesser> guessers_;  // one for each sampled row of batch_
  std::vector<Guesser> chained_;   // guessers with rows of guesses
  std::vector<float> values_;
  std::vector<int32_t> ids_;
  std::vector<double> log_sum_exp_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_MTP_DRAFTS_H_
