// The errors that tell clients why a model cannot be used now.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_ERRORS_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_ERRORS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// kNotFound. `names` are the models that there are, with commas.
absl::Status NoSuchModel(const std::string& name, absl::string_view names);
// kFailedPrecondition. `last_error` is why its last load failed, or empty.
absl::Status NotLoaded(const std::string& name, absl::string_view last_error);
// kUnavailable, with a retry delay: "model NAME WHAT".
absl::Status NotReady(const std::string& name, absl::string_view what);
// kUnavailable, with a retry delay: `busy`, which would be unloaded for model
// `name`, was in use for all of `time`.
absl::Status StillInUse(const std::string& name, absl::string_view busy,
                        absl::Duration time);
// kResourceExhausted, with a retry delay: `n` calls wait for models.
absl::Status TooManyAwaiting(const std::string& name, size_t n);
// kUnavailable.
absl::Status ShuttingDown();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_ERRORS_H_
