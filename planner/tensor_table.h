// Which tensors an architecture has and of what shape, as tables, and the check
// of a file's tensors against them.
#ifndef PLIMSOLL_PLANNER_TENSOR_TABLE_H_
#define PLIMSOLL_PLANNER_TENSOR_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf_reader.h"
#include "planner/model_shape.h"

namespace plimsoll::planner {

// A dimension of a tensor, in terms of the model.
enum class TensorDim {
  kNone,    // no second dimension: the tensor is a vector
  kModel,   // model_dim
  kVocab,   // vocab_size
  kQuery,   // n_heads * head_dim
  kKv,      // n_kv_heads * head_dim
  kHead,    // head_dim
  kFfn,     // ffn_dim
  kRotary,  // half the rotated dimensions
};

struct TensorRole {
  absl::string_view name;  // after "blk.N." for a layer's
  TensorDim cols;
  TensorDim rows;
  bool is_optional = false;
};

// What the tables' dimensions refer to.
struct TensorDims {
  const ModelShape& shape;
  int64_t n_rot;  // rotated dimensions of a head
};

// Returns the tensors of the file, in its order, each checked to have exactly
// the shape of its role, none missing and none unknown.
// Errors: kInvalidArgument naming the tensor; kUnimplemented naming a bias or
// another tensor that the format knows and this build does not.
absl::StatusOr<std::vector<WeightTensor>> CheckTensors(
    const GgufHeader& header, const TensorDims& dims,
    std::span<const TensorRole> model_roles,
    std::span<const TensorRole> layer_roles);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_TENSOR_TABLE_H_
