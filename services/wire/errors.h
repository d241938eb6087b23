// Errors as clients see them: an absl::Status with google.rpc details, and its
// conversion to a gRPC status and back.
#ifndef PLIMSOLL_SERVICES_WIRE_ERRORS_H_
#define PLIMSOLL_SERVICES_WIRE_ERRORS_H_

#include <grpcpp/support/status.h>

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "plimsoll/v1/common.pb.h"

namespace plimsoll::services {

inline constexpr absl::string_view kErrorDomain = "plimsoll.dev";

// Information for clients in addition to the code and the message.
struct ErrorDetails {
  v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
  std::map<std::string, std::string> metadata;
  std::optional<absl::Duration> retry_after;
};

// Attaches `details` to `status`, as payloads under google.rpc's type URLs. An
// OK status is not changed.
absl::Status WithDetails(absl::Status status, const ErrorDetails& details);

// Adds details to `status`: there is no device with this id.
absl::Status NoSuchDevice(absl::Status status, const std::string& id);

bool HasDetails(const absl::Status& status);

// The details that `status` carries, or those that its code implies.
ErrorDetails DetailsOf(const absl::Status& status);

// The status with which a call ends. It always carries an ErrorInfo, with
// `request_id` in its metadata, and names no path and no address.
grpc::Status ToGrpc(const absl::Status& status, absl::string_view request_id);

// Converts the status of a call that this process made, with its details.
absl::Status FromGrpc(const grpc::Status& status);

// Replaces the file paths and addresses in `text`.
std::string WithoutSecrets(absl::string_view text);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_ERRORS_H_
