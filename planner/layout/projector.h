// A multimodal projector (an "mmproj" file): the encoder of images or sound in
// front of a model.
#ifndef PLIMSOLL_PLANNER_LAYOUT_PROJECTOR_H_
#define PLIMSOLL_PLANNER_LAYOUT_PROJECTOR_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

// True if the header is a projector's, not a model's.
bool IsProjector(const GgufHeader& header);

// The memory that a projector takes of a device in addition to its model. The
// weights are those in the file. The workspace is an estimate for one image of
// the largest size, or for 30 s of sound, encoded without flash attention. With
// n tokens of width d, h heads and an FFN of width f it is
//   4 * n * (2 * d + max(3 * d + h * n, f)) bytes.
// n is (image_size / patch_size)^2 for images and 1,500 for sound (a frame
// every 20 ms).
// Errors: kInvalidArgument if the header is not a projector's, or naming the
// metadata key that is missing or out of range; kOutOfRange on overflow.
absl::StatusOr<ProjectorBytes> ProjectorFromGguf(const GgufHeader& header);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_PROJECTOR_H_
