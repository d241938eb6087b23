// A part of a model: consecutive layers that lie on one device.
#ifndef PLIMSOLL_WORKER_GRAPH_ENGINE_PART_H_
#define PLIMSOLL_WORKER_GRAPH_ENGINE_PART_H_

#include <cstdint>

#include "planner/layout/memory_plan.h"
#include "worker/device/compute_device.h"

namespace plimsoll::worker {

// Consecutive layers of a model that lie on one device.
struct EnginePart {
  const ComputeDevice*
      device;  // outlives the engine; null = this machine's CPU
  int64_t first_layer;
  int64_t n_layers;
  planner::MemoryPlan plan;  // plan of planner::SliceLayers' shape
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_ENGINE_PART_H_
