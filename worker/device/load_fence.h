// Reports the progress of a load, and stops the load.
#ifndef PLIMSOLL_WORKER_DEVICE_LOAD_FENCE_H_
#define PLIMSOLL_WORKER_DEVICE_LOAD_FENCE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

struct LoadProgress {
  absl::string_view phase;  // "verify", "allocate", "weights", "ready"
  int64_t bytes_done;
  int64_t bytes_total;
};
// A load calls its fence before each chunk, which has at most
// kernels::kMaxChunkBytes. A status that is not OK stops the load, and all its
// memory is given back.
using LoadFence = std::function<absl::Status(const LoadProgress&)>;

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_LOAD_FENCE_H_
