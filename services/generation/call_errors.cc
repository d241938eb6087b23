#include "services/generation/call_errors.h"

#include <optional>
#include <utility>

#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

// When a session may be free again: people hold one for longer than a slot.
constexpr absl::Duration kSessionRetry = absl::Seconds(30);

}  // namespace

absl::Status SessionStatus(absl::Status status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return WithDetails(
          std::move(status),
          {v1::ERROR_REASON_SESSION_NOT_FOUND, {}, std::nullopt});
    case absl::StatusCode::kFailedPrecondition:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_SESSION_BUSY, {}, kQueueRetry});
    case absl::StatusCode::kAlreadyExists:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_SESSION_EXISTS, {}, std::nullopt});
    case absl::StatusCode::kResourceExhausted:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_SESSION_LIMIT, {}, kSessionRetry});
    case absl::StatusCode::kUnavailable:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_MODEL_NOT_READY, {}, kQueueRetry});
    default:
      return status;
  }
}

absl::Status EndStatus(absl::Status status) {
  if (HasDetails(status)) return status;
  switch (status.code()) {
    case absl::StatusCode::kOutOfRange:
      return WithDetails(std::move(status),
                         {v1::ERROR_REASON_CONTEXT_FULL, {}, std::nullopt});
    case absl::StatusCode::kAborted:  // it gave way to another tenant's request
      return WithDetails(absl::ResourceExhaustedError(status.message()),
                         {v1::ERROR_REASON_QUEUE_FULL, {}, kQueueRetry});
    case absl::StatusCode::kNotFound:  // its session did
      return WithDetails(
          std::move(status),
          {v1::ERROR_REASON_SESSION_NOT_FOUND, {}, std::nullopt});
    default:
      return status;
  }
}

}  // namespace plimsoll::services
