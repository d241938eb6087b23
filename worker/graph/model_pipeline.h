// A model whose layers lie on several devices.
#ifndef PLIMSOLL_WORKER_GRAPH_MODEL_PIPELINE_H_
#define PLIMSOLL_WORKER_GRAPH_MODEL_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/buffer.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// A step with few rows, or one that only decodes, passes the parts one after
// the other on the step thread: while one computes, the others' devices wait.
// A step with many rows passes them in pieces: while a part works on one, the
// part before works on the next one.
//
// What parts of one device have to do they do in turns, on one thread, their
// lane: lane 0 is the step thread, the others have one each, which sleeps
// between such steps. Rows go from part to part through the host's memory,
// which is there before the first step and holds a whole step's: each piece has
// its own place there.
//
// Used from the step thread only.
class ModelPipeline final : public Model {
 public:
  // For steps whose rows between two parts fit in `rows`, f32 in the host's
  // memory, in pieces of `piece_rows` as of CutStep.
  ModelPipeline(kernels::Buffer rows, int64_t piece_rows);
  // No step is under way.
  ~ModelPipeline() override;

  // Where a part leaves its rows, and where the next one finds them.
  std::span<float> Rows() {
    return {reinterpret_cast<float*>(rows_.data()),
            static_cast<size_t>(rows_.bytes()) / sizeof(float)};
  }
  // The parts come in the order of their layers; the last one has the logits.
  void Add(std::unique_ptr<Model> part, size_t lane);
  // After the last part, before the first step: makes the lanes' threads.
  // Errors: kResourceExhausted if the system gives too few threads.
  absl::Status Start();

  // Errors: the first one of any part, once none of them computes any more.
  absl::Status Step(const StepBatch& batch) override;
  absl::Status ComputeLogits(std::span<const int32_t> rows) override;
  const float* Logits() const override { return parts_.back().model->Logits(); }

 private:
  struct Part {
    std::unique_ptr<Model> model;
    size_t lane;
  };
  // A part's with a piece.
  struct Turn {
    size_t part;
    size_t piece;
  };

  absl::Status StepInPieces(size_t n_pieces) ABSL_LOCKS_EXCLUDED(mu_);
  // Has the lane's parts compute what they can until the lane is over.
  void RunLane(size_t lane) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for something to do; nothing when the lane is over.
  std::optional<Turn> BeginTurn(size_t lane) ABSL_LOCKS_EXCLUDED(mu_);
  void EndTurn(const Turn& turn, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  // A part of the lane whose next piece is there: of several the last one, so
  // that what has begun ends.
  std::optional<size_t> ReadyPart(size_t lane) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The step thread's at the end of a step, the others' at the end of all.
  bool IsOver(size_t lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t piece_rows_;
  const kernels::Buffer rows_;
  std::vector<Part> parts_;  // as they are since Start
  // Of the step under way, written while every other lane waits.
  std::vector<StepBatch> pieces_;

  absl::Mutex mu_;
  size_t n_pieces_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<size_t> n_done_ ABSL_GUARDED_BY(mu_);  // pieces, by part
  int n_computing_ ABSL_GUARDED_BY(mu_) = 0;         // parts that do, now
  absl::Status error_ ABSL_GUARDED_BY(mu_);          // of the step
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_MODEL_PIPELINE_H_
