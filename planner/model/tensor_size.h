// The sizes of tensors' dimensions, in a given model.
#ifndef PLIMSOLL_PLANNER_MODEL_TENSOR_SIZE_H_
#define PLIMSOLL_PLANNER_MODEL_TENSOR_SIZE_H_

#include <cstdint>

#include "planner/model/tensor_role.h"
#include "planner/model/tensor_table.h"

namespace plimsoll::planner {

// The elements of a dimension in a layer of the model; 1 for Dim::kNone. Widths
// are at most ModelShape::kMaxDim and counts too, so no product overflows.
int64_t SizeOf(Dim dim, const TensorContext& context, const LayerShape& layer);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_TENSOR_SIZE_H_
