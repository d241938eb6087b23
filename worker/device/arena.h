// One allocation per device, and the plan's regions in it by name.
#ifndef PLIMSOLL_WORKER_DEVICE_ARENA_H_
#define PLIMSOLL_WORKER_DEVICE_ARENA_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::worker {

// Owns the device memory of one loaded model, which stays where it is after
// Allocate. The arena notes which regions were asked for. Therefore only one
// thread may use it at a time: the thread that loads the model.
class Arena {
 public:
  Arena() = default;
  // Allocates exactly the plan's arena from the backend, in one allocation
  // whose chunks are fenced (Backend::Allocate).
  // Errors: kResourceExhausted with the bytes wanted; the fence's errors.
  static absl::StatusOr<Arena> Allocate(const planner::MemoryPlan& plan,
                                        kernels::Backend& backend,
                                        kernels::ChunkFence fence);

  // The region called `name`; the plan must have it inside the arena.
  kernels::BufferView Region(const planner::MemoryPlan& plan,
                             absl::string_view name) const;
  // The names of the regions that Region() has returned. A region that nobody
  // uses wastes memory.
  const std::set<std::string, std::less<>>& Asked() const { return asked_; }
  // Bytes that the device took.
  int64_t bytes() const { return buffer_.bytes(); }

 private:
  explicit Arena(kernels::Buffer buffer) : buffer_(std::move(buffer)) {}
  kernels::Buffer buffer_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_ARENA_H_
