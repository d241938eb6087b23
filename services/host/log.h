// Lines for the operator on standard error: no prompt, completion or token is
// ever written there.
#ifndef PLIMSOLL_SERVICES_HOST_LOG_H_
#define PLIMSOLL_SERVICES_HOST_LOG_H_

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// Writes one line, with the time in front. Control characters are escaped.
// Thread-safe.
void Log(absl::string_view message);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LOG_H_
