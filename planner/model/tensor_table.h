// The table of an architecture's tensors and their shapes, and the check of a
// file's tensors against it.
#ifndef PLIMSOLL_PLANNER_MODEL_TENSOR_TABLE_H_
#define PLIMSOLL_PLANNER_MODEL_TENSOR_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/architectures.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// The values that the dimensions and conditions of the table depend on.
struct TensorContext {
  const ModelShape& shape;  // complete except for `weights`
  const Architecture& architecture;
  int64_t n_rot;          // rotated dimensions of a head
  bool is_qkv_fused;      // one attn_qkv instead of attn_q, _k and _v
  bool is_gate_up_fused;  // one ffn_gate_up_exps instead of two tensors
  // The number of layers behind those of the model. The layers among them that
  // are no MTP head are ignored.
  int64_t n_draft_layers = 0;
};

// Rows of a fused tensor: their name as a separate tensor, and their number.
struct SliceSpec {
  std::string name;
  int64_t rows;
};

// A tensor that a model of this shape has.
struct TensorSpec {
  std::string name;
  std::array<int64_t, 4> ne;  // ne[0] is the contiguous one; unused are 1
  bool is_vector;             // a norm or a bias, or ne[1] of them
  bool is_optional;           // a file may lack it
  bool is_usual;              // a model of this kind has it
  bool is_ignored;            // the file may have it; nothing reads it
  WeightKind kind;
  std::vector<SliceSpec> slices;  // empty if the tensor is not fused
  bool is_of_each_slice = false;  // every slice is the whole tensor
};

// The tensors of a model; those that belong to no layer come first.
std::vector<TensorSpec> TensorSpecs(const TensorContext& context);

// Returns the tensors of the file, in its order, without ignored ones. A tensor
// with parts is replaced by its parts. Each tensor of the file must have
// exactly the shape of its spec; none may be missing or unknown. Beside the
// specs, the file may have scales of products: for X.weight a vector X.scale of
// one number for each of its matrices, which multiplies the product, and
// X.input_scale, which is ignored. Errors:
// kInvalidArgument naming the tensor; kUnimplemented naming a bias or another
// tensor that the format has and this build does not support.
absl::StatusOr<std::vector<WeightTensor>> CheckTensors(
    const GgufHeader& header, const TensorContext& context);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_TENSOR_TABLE_H_
