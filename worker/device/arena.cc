#include "worker/device/arena.h"

#include "base/status_macros.h"
#include "base/sync/fault.h"

namespace plimsoll::worker {

absl::StatusOr<Arena> Arena::Allocate(const planner::MemoryPlan& plan,
                                      kernels::Backend& backend,
                                      kernels::ChunkFence fence) {
  if (PLIMSOLL_FAULT("device.allocate")) {
    return absl::ResourceExhaustedError("the device has no memory left");
  }
  ASSIGN_OR_RETURN(kernels::Buffer buffer,
                   backend.Allocate(plan.arena_bytes, fence));
  return Arena(std::move(buffer));
}

kernels::BufferView Arena::Region(const planner::MemoryPlan& plan,
                                  absl::string_view name) const {
  const planner::Region* region = plan.FindRegion(name);
  PLIMSOLL_CHECK(region != nullptr && region->offset >= 0,
                 "every plan has the regions that the worker asks for");
  asked_.emplace(name);
  return buffer_.view().Slice(region->offset, region->bytes);
}

}  // namespace plimsoll::worker
