#include "worker/engine/engine_resources.h"

#include "worker/device/compute_device.h"
#include "worker/device/host_resources.h"

namespace plimsoll::worker {
namespace {

// What the backend's allocator takes for the plan's arena.
int64_t PlannedBytes(const planner::MemoryPlan& plan,
                     const kernels::Backend& backend) {
  return planner::AllocatedBytes(ProfileOf(backend.Device()), plan.arena_bytes)
      .value_or(plan.arena_bytes);
}

}  // namespace

MemoryReport EngineResources::Memory() const {
  MemoryReport all = MemoryOf(0);
  for (size_t i = 1; i < stages.size(); ++i) {
    const MemoryReport part = MemoryOf(i);
    all.planned_bytes += part.planned_bytes;
    all.allocated_bytes += part.allocated_bytes;
    all.device_allocations_after_load += part.device_allocations_after_load;
    all.host_planned_bytes += part.host_planned_bytes;
    all.host_allocated_bytes += part.host_allocated_bytes;
    if (!part.device_taken_bytes) continue;
    all.device_taken_bytes =
        all.device_taken_bytes.value_or(0) + *part.device_taken_bytes;
  }
  return all;
}

MemoryReport EngineResources::MemoryOf(size_t part) const {
  const Stage& stage = stages[part];
  const HostStage* const host = stage.host.get();
  return {.planned_bytes = PlannedBytes(*stage.plan, *stage.backend),
          .allocated_bytes = stage.arena.bytes(),
          .device_allocations_after_load =
              stage.backend->Allocations() - stage.allocations_at_load,
          .peak_rss_bytes = PeakResidentBytes(),
          .vocab_bytes = tokenizer->MemoryBytes(),
          .vocab_on_device = stages.front().device->is_host(),
          .table_bytes = cache->TableBytes(),
          .device_taken_bytes = stage.device_taken_bytes,
          .host_planned_bytes =
              host == nullptr ? 0 : PlannedBytes(host->plan, *host->backend),
          .host_allocated_bytes = host == nullptr ? 0 : host->arena.bytes()};
}

}  // namespace plimsoll::worker
