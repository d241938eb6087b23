// The reasons for which a server refuses a caller, as they are counted.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_AUTH_FAILURE_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_AUTH_FAILURE_H_

#include <array>
#include <cstdint>

namespace plimsoll::services {

enum class AuthFailure {
  kNoToken,     // the server wants a token, and the call has none
  kWrongToken,  // it has one that is not valid, or not valid any more
  kNoGrant,     // its connection proves nobody with a grant
  kLowRole,     // the caller is known, and may not do this
};

// The words for them in metrics, in their order.
inline constexpr std::array kAuthFailureWords = {"no_token", "wrong_token",
                                                 "no_grant", "low_role"};

// The number of calls that were refused so far, by AuthFailure.
using AuthFailureCounts = std::array<int64_t, kAuthFailureWords.size()>;

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_AUTH_FAILURE_H_
