// The error of logits that are not finite numbers.
#ifndef PLIMSOLL_WORKER_SAMPLING_NON_FINITE_H_
#define PLIMSOLL_WORKER_SAMPLING_NON_FINITE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// Returns kInternal with a message that says `where` the logits are, such as
// "after 3 generated tokens", which IsNonFiniteLogits recognises.
absl::Status NonFiniteLogits(absl::string_view where);

// Whether `status` comes from NonFiniteLogits, also after AtStep.
bool IsNonFiniteLogits(const absl::Status& status);

// The place of an error. The layer is not known, because only logits are
// checked.
struct StepPlace {
  int64_t step;      // counted from the load, from 1
  int64_t position;  // position of the token in its context
};

// Adds the place to the message of a status of NonFiniteLogits. Other statuses
// are not changed.
absl::Status AtStep(const absl::Status& status, const StepPlace& place);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_NON_FINITE_H_
