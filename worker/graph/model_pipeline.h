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
// the other on the step thread: while one part computes, the devices of the
// others wait. A step with many rows passes them in pieces: while a part works
// on one piece, the part before it works on the next.
//
// The parts of one device take turns on one thread, which is their lane. Lane 0
// is the step thread; every other lane has a thread that sleeps between such
// steps. Rows go from part to part through host memory, which is allocated
// before the first step and holds the rows of a whole step: each piece has its
// own place in it.
//
// Used from the step thread only.
class ModelPipeline final : public Model {
 public:
  // `rows` is f32 host memory for a step's rows between two parts. Steps are
  // cut into pieces of `piece_rows` by CutStep.
  ModelPipeline(kernels::Buffer rows, int64_t piece_rows);
  // No step may be running.
  ~ModelPipeline() override;

  // The host memory in which a part leaves its rows and the next part finds
  // them.
  std::span<float> Rows() {
    return {reinterpret_cast<float*>(rows_.data()),
            static_cast<size_t>(rows_.bytes()) / sizeof(float)};
  }
  // The parts come in the order of their layers; the last one has the logits.
  void Add(std::unique_ptr<Model> part, size_t lane);
  // Starts the lanes' threads; called after the last part and before the first
  // step.
  // Errors: kResourceExhausted if the system gives too few threads.
  absl::Status Start();

  absl::Status FinishLoad() override;
  // Errors: the first error of any part. It returns when no part computes any
  // more.
  absl::Status Step(const StepBatch& batch) override;
  absl::Status ComputeLogits(std::span<const int32_t> rows) override;
  const float* Logits() const override { return parts_.back().model->Logits(); }

 private:
  struct Part {
    std::unique_ptr<Model> model;
    size_t lane;
  };
  // A part that computes a piece.
  struct Turn {
    size_t part;
    size_t piece;
  };

  absl::Status StepInPieces(size_t n_pieces) ABSL_LOCKS_EXCLUDED(mu_);
  // Runs the lane's parts whenever they have something to compute, until the
  // lane is over.
  void RunLane(size_t lane) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for the next turn; returns nothing when the lane is over.
  std::optional<Turn> BeginTurn(size_t lane) ABSL_LOCKS_EXCLUDED(mu_);
  void EndTurn(const Turn& turn, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  // A part of the lane whose next piece has arrived. Among several it is the
  // last part, so that pieces which have begun end soon.
  std::optional<size_t> ReadyPart(size_t lane) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The step thread's lane is over at the end of a step, the others when the
  // pipeline ends.
  bool IsOver(size_t lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t piece_rows_;
  const kernels::Buffer rows_;
  std::vector<Part> parts_;  // do not change after Start
  // The pieces of the running step, written while all other lanes wait.
  std::vector<StepBatch> pieces_;

  absl::Mutex mu_;
  size_t n_pieces_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<size_t> n_done_ ABSL_GUARDED_BY(mu_);  // pieces, by part
  int n_computing_ ABSL_GUARDED_BY(mu_) = 0;         // parts that compute now
  absl::Status error_ ABSL_GUARDED_BY(mu_);          // the step's error
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_MODEL_PIPELINE_H_
