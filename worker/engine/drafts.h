// Speculative decoding, by prompt lookup or by a model's MTP head: guesses
// tokens, and keeps as many of the computed guesses as were right.
#ifndef PLIMSOLL_WORKER_ENGINE_DRAFTS_H_
#define PLIMSOLL_WORKER_ENGINE_DRAFTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/cache/kv_cache.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/mtp_drafts.h"
#include "worker/engine/scheduled_step.h"
#include "worker/engine/sequence.h"
#include "worker/graph/decoder/stage.h"

namespace plimsoll::worker {

// Consecutive guessed rows of one slot.
struct DraftRows {
  int64_t slot;
  int64_t first_position;
  int64_t n_rows;
};

// A guess changes how long tokens take, never which tokens are drawn. Owned by
// the engine, used from the step thread only. Keeps its scratch between steps:
// no call allocates.
class Drafts {
 public:
  // `resources` outlives the object.
  explicit Drafts(const EngineResources& resources);

  // True if the plan has room for guesses.
  bool is_enabled() const { return is_enabled_; }
  // True if steps must keep all of their rows.
  bool NeedsAllRows() const { return mtp_.has_value(); }
  // Runs the MTP head, if there is one, after a step of the model whose guesses
  // are decided (MtpDrafts::Run).
  // Errors: those of the backend.
  absl::Status Predict(const ScheduledStep& step, const StepBatch& batch) {
    return mtp_ ? mtp_->Run(step, batch) : absl::OkStatus();
  }
  // Guesses the tokens that follow a sequence's newest one, as many as its
  // request allows and its pages have room for. The sequence keeps them in
  // draft().
  void Guess(Sequence& sequence, int64_t slot);
  // Keeps the first `n_right` of the guessed rows, and takes the others back.
  // Kept rows move into the slot's rings.
  // Errors: those of the backends.
  absl::Status Keep(const DraftRows& guessed, int64_t n_right);

 private:
  absl::Status MoveToRings(const DraftRows& rows);
  absl::Status MoveToRing(kernels::Backend& backend, int64_t layer,
                          const DraftRows& rows);

  std::optional<MtpDrafts> mtp_;
  std::span<const Stage> stages_;
  KvCache& cache_;
  const bool is_enabled_;
  std::vector<int32_t> newest_tokens_;  // guesses are looked up here
  std::vector<int64_t> draft_offsets_;  // offsets of the rows that move
  std::vector<int64_t> ring_offsets_;   // the places where they go
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_DRAFTS_H_
