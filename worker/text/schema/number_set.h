// Sets of numbers with bounds, multiples and similar conditions, digit by
// digit.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_NUMBER_SET_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_NUMBER_SET_H_

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "worker/text/schema/shapes/shape.h"
#include "worker/text/schema/text_sets.h"

namespace plimsoll::worker {

// The numbers in plain digits. Errors: those of TextSets::Of.
absl::StatusOr<TextSet> NumberSet(const NumberShape& shape, StopCheck stop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_NUMBER_SET_H_
