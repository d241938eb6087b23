// The shape of a model whose weights are stored in another element type than in
// the file.
#ifndef PLIMSOLL_PLANNER_MODEL_WEIGHT_TYPE_H_
#define PLIMSOLL_PLANNER_MODEL_WEIGHT_TYPE_H_

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// Returns `shape` with every matrix stored as `dtype`, or as its replacement by
// StorableType. Vectors keep their type. File offsets in the result mean
// nothing.
// Errors: kInvalidArgument for a type that no weights are stored in;
// kOutOfRange if a tensor's bytes overflow int64.
absl::StatusOr<ModelShape> WithWeightType(const ModelShape& shape, DType dtype);

// A shape whose matrices have the type of EngineRules::weight_type. It copies
// the shape only if a type is given. Refers to `shape`, which must outlive it.
class StoredShape {
 public:
  // Errors: those of WithWeightType.
  static absl::StatusOr<StoredShape> Create(const ModelShape& shape,
                                            const std::optional<DType>& dtype);

  const ModelShape& get() const { return copy_ ? *copy_ : *shape_; }

 private:
  StoredShape(const ModelShape& shape, std::optional<ModelShape> copy)
      : shape_(&shape), copy_(std::move(copy)) {}

  const ModelShape* shape_;
  std::optional<ModelShape> copy_;
};

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_WEIGHT_TYPE_H_
