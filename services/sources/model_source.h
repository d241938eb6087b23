// Finds the model of a request, from any description that the request has.
#ifndef PLIMSOLL_SERVICES_SOURCES_MODEL_SOURCE_H_
#define PLIMSOLL_SERVICES_SOURCES_MODEL_SOURCE_H_

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"
#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// Returns the header that a GGUF file of these numbers would have.
// Errors: kInvalidArgument naming the field or key that makes no sense;
// kUnimplemented naming an unknown architecture.
absl::StatusOr<planner::GgufHeader> HeaderFromNumbers(
    const v1::Hyperparameters& numbers);

// Returns the shape from a header, a config.json or hyperparameters.
// Errors: kInvalidArgument naming what is wrong, or if `source` is a name or
// empty; kUnimplemented.
absl::StatusOr<planner::ModelShape> ShapeFromSource(
    const v1::ModelSource& source);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_MODEL_SOURCE_H_
