// Reads the elements of a header's arrays, which stay in the file.
#ifndef PLIMSOLL_PLANNER_GGUF_GGUF_ARRAYS_H_
#define PLIMSOLL_PLANNER_GGUF_GGUF_ARRAYS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/byte_source.h"
#include "planner/gguf/gguf_header.h"

namespace plimsoll::planner {

// Calls `visit(index, bytes)` for every string of a string array, in order, in
// chunked reads. `visit`'s view is valid only during the call.
// Errors: kInvalidArgument if it is not an array of strings; kDataLoss if the
// file has changed; the first error of `visit`.
absl::Status ForEachString(
    ByteSource& source, const GgufArray& array,
    const std::function<absl::Status(int64_t, absl::string_view)>& visit);

// Reads a numeric array as float32 or int32, range-checked.
absl::StatusOr<std::vector<float>> ReadFloats(ByteSource& source,
                                              const GgufArray& array);
absl::StatusOr<std::vector<int32_t>> ReadInt32s(ByteSource& source,
                                                const GgufArray& array);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_GGUF_GGUF_ARRAYS_H_
