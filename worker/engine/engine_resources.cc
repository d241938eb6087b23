#include "worker/engine/engine_resources.h"

#include "worker/device/compute_device.h"
#include "worker/device/host_resources.h"

namespace plimsoll::worker {

MemoryReport EngineResources::Memory() const {
  MemoryReport all = MemoryOf(0);
  for (size_t i = 1; i < stages.size(); ++i) {
    const MemoryReport part = MemoryOf(i);
    all.planned_bytes += part.planned_bytes;
    all.allocated_bytes += part.allocated_bytes;
    all.device_allocations_after_load += part.device_allocations_after_load;
    if (!part.device_taken_bytes) continue;
    all.device_taken_bytes =
        all.device_taken_bytes.value_or(0) + *part.device_taken_bytes;
  }
  return all;
}

MemoryReport EngineResources::MemoryOf(size_t part) const {
  const Stage& stage = stages[part];
  const int64_t arena_bytes = stage.plan->arena_bytes;
  const auto planned =
      planner::AllocatedBytes(ProfileOf(stage.backend->Device()), arena_bytes);
  return {.planned_bytes = planned.value_or(arena_bytes),
          .allocated_bytes = stage.arena.bytes(),
          .device_allocations_after_load =
              stage.backend->Allocations() - stage.allocations_at_load,
          .peak_rss_bytes = PeakResidentBytes(),
          .vocab_bytes = tokenizer->MemoryBytes(),
          .vocab_on_device = stages.front().device->is_host(),
          .table_bytes = cache->TableBytes(),
          .device_taken_bytes = stage.device_taken_bytes};
}

}  // namespace plimsoll::worker
