#include "worker/model_pipeline.h"

#include "base/status_macros.h"

namespace plimsoll::worker {

absl::Status ModelPipeline::Step(const StepBatch& batch) {
  for (const std::unique_ptr<Model>& part : parts_) {
    RETURN_IF_ERROR(part->Step(batch));
  }
  return absl::OkStatus();
}

absl::Status ModelPipeline::ComputeLogits(std::span<const int32_t> rows) {
  return parts_.back()->ComputeLogits(rows);
}

}  // namespace plimsoll::worker
