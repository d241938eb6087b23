#include "planner/model/weight_type.h"

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

// True for types of weights; integers, doubles and the types that only
// activations use are not.
bool IsWeightType(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kF64:
    case DType::kQ8_1:
    case DType::kQ8_K:
      return false;
    default:
      return true;
  }
}

}  // namespace

absl::StatusOr<ModelShape> WithWeightType(const ModelShape& shape,
                                          DType dtype) {
  if (!IsWeightType(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights are not stored in ", DTypeName(dtype)));
  }
  ModelShape changed = shape;
  for (WeightTensor& tensor : changed.weights) {
    if (tensor.is_vector) continue;
    tensor.dtype = StorableType(dtype, tensor.cols);
    ASSIGN_OR_RETURN(const int64_t row, RowBytes(tensor.dtype, tensor.cols));
    const auto bytes = (Checked(row) * tensor.rows * tensor.n_matrices).Get();
    if (!bytes) {
      return absl::OutOfRangeError(absl::StrCat(
          "tensor \"", tensor.name, "\" does not fit in int64 bytes"));
    }
    tensor.file_bytes = *bytes;
  }
  return changed;
}

absl::StatusOr<StoredShape> StoredShape::Create(
    const ModelShape& shape, const std::optional<DType>& dtype) {
  if (!dtype) return StoredShape(shape, std::nullopt);
  ASSIGN_OR_RETURN(ModelShape changed, WithWeightType(shape, *dtype));
  return StoredShape(shape, std::move(changed));
}

}  // namespace plimsoll::planner
