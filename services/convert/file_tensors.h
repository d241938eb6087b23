// The tensors of the converted file, and the source of each.
#ifndef PLIMSOLL_SERVICES_CONVERT_FILE_TENSORS_H_
#define PLIMSOLL_SERVICES_CONVERT_FILE_TENSORS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/gguf/gguf_header.h"
#include "planner/model/checkpoint_names.h"
#include "services/convert/checkpoint.h"
#include "services/sources/config_json.h"

namespace plimsoll::services {

// A tensor of the file. Its source is a tensor of the checkpoint or a vector of
// the config; the other pointer is null.
struct TensorSource {
  planner::GgufTensor tensor;
  planner::FileTensor change;
  const Checkpoint::Tensor* checkpoint;
  const ConfigVector* vector;
};

struct FileTensors {
  std::vector<TensorSource> sources;  // in the file's order
  int64_t data_bytes = 0;             // bytes of all tensors, with padding
  int64_t n_left_out = 0;             // tensors that the file has no place for
};

// Lays the tensors out, at multiples of `alignment` bytes. Refers to `config`
// and `checkpoint`, which must outlive the result. ShapeFromGguf checks whether
// the model has all its tensors in the right shapes.
// Errors: kInvalidArgument naming a tensor that is unknown, or has more than
// two dimensions; kUnimplemented naming one whose type is not F32, F16 or BF16;
// kOutOfRange on overflow.
absl::StatusOr<FileTensors> LayTensorsOut(const ModelConfig& config,
                                          const Checkpoint& checkpoint,
                                          std::optional<DType> dtype,
                                          int64_t alignment);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_FILE_TENSORS_H_
