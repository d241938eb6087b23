// Copies the step's description of its states to the device.
#ifndef PLIMSOLL_KERNELS_CUDA_RECURRENT_SEGMENTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_RECURRENT_SEGMENTS_CUH_

#include <algorithm>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/recurrent.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// `states` of a step of `n_rows` rows, with its arrays copied to the device.
inline absl::StatusOr<StepStates> PutStates(StepStates states, int64_t n_rows,
                                            LaunchQueue* queue) {
  ASSIGN_OR_RETURN(
      states.segments,
      queue->PutSpan(std::span<const StateSegment>(
          states.segments, static_cast<size_t>(states.n_segments))));
  ASSIGN_OR_RETURN(states.destinations,
                   queue->PutSpan(std::span<const int32_t>(
                       states.destinations, static_cast<size_t>(n_rows))));
  return states;
}

// The rows of the longest segment; `states` has its arrays on the host.
inline int64_t LongestSegment(const StepStates& states) {
  int64_t longest = 0;
  for (int64_t s = 0; s < states.n_segments; ++s) {
    longest = std::max(longest, states.segments[s].n_rows);
  }
  return longest;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_RECURRENT_SEGMENTS_CUH_
