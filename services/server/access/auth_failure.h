// The counted reasons for which a server refuses a caller.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_AUTH_FAILURE_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_AUTH_FAILURE_H_

#include <array>
#include <cstdint>

namespace plimsoll::services {

enum class AuthFailure {
  kNoToken,     // the server wants a token, and the call has none
  kWrongToken,  // the token is not valid, or no longer valid
  kNoGrant,     // the connection proves no identity with a grant
  kLowRole,     // the caller's role does not allow the method
};

// The words for the reasons in metrics, in the same order.
inline constexpr std::array kAuthFailureWords = {"no_token", "wrong_token",
                                                 "no_grant", "low_role"};

// The number of calls that were refused so far, by AuthFailure.
using AuthFailureCounts = std::array<int64_t, kAuthFailureWords.size()>;

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_AUTH_FAILURE_H_
