#include "services/worker/models/model_errors.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

absl::Status Refused(absl::Status status, v1::ErrorReason reason,
                     const std::string& name,
                     std::optional<absl::Duration> retry_after) {
  return WithDetails(std::move(status),
                     {reason, {{"model", name}}, retry_after});
}

}  // namespace

absl::Status NoSuchModel(const std::string& name, absl::string_view names) {
  return Refused(absl::NotFoundError(
                     absl::StrCat("no such model; this worker has: ", names)),
                 v1::ERROR_REASON_MODEL_NOT_FOUND, name, std::nullopt);
}

absl::Status NotLoaded(const std::string& name, absl::string_view last_error) {
  return Refused(absl::FailedPreconditionError(
                     absl::StrCat("model ", name, " is not loaded",
                                  last_error.empty() ? "" : ": ", last_error)),
                 v1::ERROR_REASON_MODEL_NOT_LOADED, name, std::nullopt);
}

absl::Status NotReady(const std::string& name, absl::string_view what) {
  return Refused(
      absl::UnavailableError(absl::StrCat("model ", name, " ", what)),
      v1::ERROR_REASON_MODEL_NOT_READY, name, absl::Seconds(1));
}

absl::Status StillInUse(const std::string& name, absl::string_view busy,
                        absl::Duration time) {
  return NotReady(name, absl::StrCat("was not loaded: ", busy,
                                     ", which would be unloaded for it, is "
                                     "still in use after ",
                                     absl::FormatDuration(time)));
}

absl::Status TooManyAwaiting(const std::string& name, size_t n) {
  return Refused(absl::ResourceExhaustedError(absl::StrCat(
                     n, " calls wait for models to be loaded; try again")),
                 v1::ERROR_REASON_QUEUE_FULL, name, absl::Seconds(1));
}

absl::Status ShuttingDown() {
  return WithDetails(absl::UnavailableError("this server is shutting down"),
                     {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()});
}

}  // namespace plimsoll::services
