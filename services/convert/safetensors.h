// The header of a safetensors file: bytes that may be hostile become a checked
// table of tensors. Tensor data is never read.
#ifndef PLIMSOLL_SERVICES_CONVERT_SAFETENSORS_H_
#define PLIMSOLL_SERVICES_CONVERT_SAFETENSORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/gguf/byte_source.h"

namespace plimsoll::services {

// Limits on what a file may demand. Each has a test at it and one past it.
inline constexpr int64_t kMaxSafetensorsHeader = 16 << 20;  // bytes
inline constexpr int64_t kMaxSafetensors = 65'536;
inline constexpr int64_t kMaxSafetensorName = 256;  // bytes
inline constexpr int64_t kMaxSafetensorDims = 8;

struct SafeTensor {
  std::string name;
  std::string type;                 // the file's name of the type
  std::optional<DType> dtype = {};  // set for F32, F16 and BF16
  std::vector<int64_t> shape = {};  // the last dimension is contiguous
  int64_t offset = 0;               // from the start of the file
  int64_t bytes = 0;
};

// Reads the header behind `source`. The tensors come in the order of their
// offsets.
// A header is refused if it is no JSON, names a tensor twice, or has a type,
// shape or range that makes no sense, or if tensors overlap or lie outside of
// the file.
// Errors: kInvalidArgument or kDataLoss with the tensor and its fault;
// kUnimplemented naming an unknown type; those of `source`.
// Source: the safetensors format, version 0.4.
absl::StatusOr<std::vector<SafeTensor>> ReadSafetensors(
    planner::ByteSource& source);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_SAFETENSORS_H_
