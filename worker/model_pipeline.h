// A model whose layers lie on several devices.
#ifndef PLIMSOLL_WORKER_MODEL_PIPELINE_H_
#define PLIMSOLL_WORKER_MODEL_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/model.h"

namespace plimsoll::worker {

// Runs the parts one after the other: while one computes, the others' devices
// wait. Rows go from part to part through the host's memory, which is there
// before the first step. Used from the step thread only.
class ModelPipeline final : public Model {
 public:
  // For rows of at most `n_floats` numbers together.
  explicit ModelPipeline(int64_t n_floats)
      : rows_(static_cast<size_t>(n_floats)) {}

  // Where a part leaves its rows, and where the next one finds them.
  std::span<float> Rows() { return rows_; }
  // The parts come in the order of their layers; the last one has the logits.
  void Add(std::unique_ptr<Model> part) { parts_.push_back(std::move(part)); }

  absl::Status Step(const StepBatch& batch) override;
  absl::Status ComputeLogits(std::span<const int32_t> rows) override;
  const float* Logits() const override { return parts_.back()->Logits(); }

 private:
  std::vector<float> rows_;
  std::vector<std::unique_ptr<Model>> parts_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_MODEL_PIPELINE_H_
