#include "planner/tensor_table.h"

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf_stream.h"

namespace plimsoll::planner {
namespace {

struct Expected {
  int64_t cols;
  int64_t rows;
  bool is_vector;
  bool is_optional;
  bool is_present = false;
};

using ExpectedTensors = absl::flat_hash_map<std::string, Expected>;

// The widths are at most kMaxDim and head counts too, so no product overflows.
int64_t SizeOf(TensorDim dim, const TensorDims& dims, const LayerShape& layer) {
  switch (dim) {
    case TensorDim::kNone:
      return 1;
    case TensorDim::kModel:
      return dims.shape.model_dim;
    case TensorDim::kVocab:
      return dims.shape.vocab_size;
    case TensorDim::kQuery:
      return dims.shape.n_heads * layer.head_dim;
    case TensorDim::kKv:
      return layer.n_kv_heads * layer.head_dim;
    case TensorDim::kHead:
      return layer.head_dim;
    case TensorDim::kFfn:
      return layer.ffn_dim;
    case TensorDim::kRotary:
      return dims.n_rot / 2;
  }
  return 0;
}

Expected ExpectedOf(const TensorRole& role, const TensorDims& dims,
                    const LayerShape& layer) {
  return {.cols = SizeOf(role.cols, dims, layer),
          .rows = SizeOf(role.rows, dims, layer),
          .is_vector = role.rows == TensorDim::kNone,
          .is_optional = role.is_optional};
}

absl::Status Unknown(const GgufTensor& tensor) {
  const std::string what = absl::StrCat("tensor ", Quoted(tensor.name));
  for (absl::string_view known : {".bias", "_exps.weight", "attn_qkv.weight",
                                  "ffn_gate_inp.weight", ".scale"}) {
    if (!absl::EndsWith(tensor.name, known)) continue;
    return absl::UnimplementedError(
        absl::StrCat(what, ": tensors of this kind (", known,
                     ") are not supported for this architecture"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is unknown to this architecture"));
}

absl::Status CheckTensor(const GgufTensor& tensor, const Expected& expected) {
  const std::array<int64_t, 4> wanted = {expected.cols, expected.rows, 1, 1};
  if (tensor.ne != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(tensor.name), " has the shape [", tensor.ne[0], ", ",
        tensor.ne[1], ", ", tensor.ne[2], ", ", tensor.ne[3], "], not [",
        expected.cols, ", ", expected.rows, ", 1, 1]"));
  }
  const bool is_float = tensor.dtype == DType::kF32 ||
                        tensor.dtype == DType::kF16 ||
                        tensor.dtype == DType::kBF16;
  if (expected.is_vector && !is_float) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor.name), " is a vector of type ",
                     DTypeName(tensor.dtype), ", not f32, f16 or bf16"));
  }
  return absl::OkStatus();
}

absl::Status CheckNoneMissing(const ExpectedTensors& expected) {
  // The smallest name, so that the message does not depend on hashing.
  const std::string* missing = nullptr;
  for (const auto& [name, tensor] : expected) {
    if (tensor.is_present || tensor.is_optional) continue;
    if (missing == nullptr || name < *missing) missing = &name;
  }
  if (missing == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor \"", *missing, "\" is missing"));
}

}  // namespace

absl::StatusOr<std::vector<WeightTensor>> CheckTensors(
    const GgufHeader& header, const TensorDims& dims,
    std::span<const TensorRole> model_roles,
    std::span<const TensorRole> layer_roles) {
  ExpectedTensors expected;
  for (const TensorRole& role : model_roles) {
    expected[std::string(role.name)] =
        ExpectedOf(role, dims, dims.shape.layers.front());
  }
  for (size_t i = 0; i < dims.shape.layers.size(); ++i) {
    for (const TensorRole& role : layer_roles) {
      expected[absl::StrCat("blk.", i, ".", role.name)] =
          ExpectedOf(role, dims, dims.shape.layers[i]);
    }
  }
  std::vector<WeightTensor> weights;
  weights.reserve(header.tensors.size());
  for (const GgufTensor& tensor : header.tensors) {
    const auto it = expected.find(tensor.name);
    if (it == expected.end()) return Unknown(tensor);
    RETURN_IF_ERROR(CheckTensor(tensor, it->second));
    it->second.is_present = true;
    // The reader checked that offset and size stay within the file.
    weights.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .cols = it->second.cols,
                       .rows = it->second.rows,
                       .is_vector = it->second.is_vector,
                       .file_offset = header.data_offset + tensor.offset,
                       .file_bytes = tensor.bytes});
  }
  RETURN_IF_ERROR(CheckNoneMissing(expected));
  return weights;
}

}  // namespace plimsoll::planner
