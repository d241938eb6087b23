// The ids that clients give their requests.
#ifndef PLIMSOLL_SERVICES_SERVER_REQUEST_ID_H_
#define PLIMSOLL_SERVICES_SERVER_REQUEST_ID_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// The metadata key of the id, and the HTTP header in lower case.
inline constexpr absl::string_view kRequestIdKey = "x-request-id";
// A call keeps its x-request-id up to this length. A call with a longer one
// gets a new id.
inline constexpr size_t kMaxRequestIdBytes = 128;

// Returns whether a client's id is kept: it is printable ASCII without spaces,
// and neither empty nor too long.
bool IsGoodRequestId(absl::string_view id);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_REQUEST_ID_H_
