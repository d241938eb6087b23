// An engine's part on one device: some layers of its model, with the backend
// and the memory that they use.
#ifndef PLIMSOLL_WORKER_GRAPH_DECODER_STAGE_H_
#define PLIMSOLL_WORKER_GRAPH_DECODER_STAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"
#include "worker/device/arena.h"
#include "worker/device/compute_device.h"
#include "worker/graph/engine_part.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// The CPU's part of a stage on a device with its own memory.
struct HostStage {
  planner::MemoryPlan plan;  // planner::HostPlanOf
  std::unique_ptr<kernels::Backend> backend = nullptr;
  Arena arena = {};
  GraphInputs inputs = {};  // made from the members above and the stage
};

// The MTP head of a model, in the arena of its only stage.
struct MtpStage {
  planner::ModelShape shape;  // planner::MtpShapeOf
  planner::MemoryPlan plan;   // planner::MtpPlanOf
  GraphInputs trunk = {};     // inputs of the model
  GraphInputs inputs = {};    // made from the members above and the stage
};

struct Stage {
  planner::ModelShape shape;  // shape of these layers
  int64_t first_layer;
  const planner::MemoryPlan* plan;
  const ComputeDevice* device;
  std::unique_ptr<kernels::Backend> backend = nullptr;
  Arena arena = {};
  // Memory for the plan's kv_parked, if it is not in the arena.
  kernels::Buffer parked = {};
  std::unique_ptr<HostStage> host = nullptr;  // if the CPU has experts of it
  std::unique_ptr<MtpStage> mtp = nullptr;    // if the plan has an MTP head
  int64_t allocations_at_load = 0;
  int64_t free_before = 0;  // before the load; not on the host
  std::optional<int64_t> device_taken_bytes = std::nullopt;  // by the load
};

// Returns the parts as stages without a backend. The parts outlive them.
// Errors: those of Engine::Load for parts that do not make one model together,
// or that this build cannot run.
absl::StatusOr<std::vector<Stage>> StagesOf(const planner::ModelShape& shape,
                                            std::span<const EnginePart> parts);

// The device that a part names.
inline const ComputeDevice& DeviceOf(const EnginePart& part) {
  return part.device != nullptr ? *part.device : LocalCpu();
}
// True if the CPU computes anything of a model.
bool AnyOnHost(std::span<const Stage> stages);
// The lane that computes each part when parts compute at the same time. Each
// device has one lane, because parts on one device would only slow each other
// down; lanes are numbered without gaps. Lane 0, the step thread, is the
// host's, whose threads are called from there; without a host part it is the
// first part's.
std::vector<size_t> LanesOf(std::span<const EnginePart> parts);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_DECODER_STAGE_H_
