// The proven identity of a caller.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_IDENTITY_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_IDENTITY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "services/server/access/roles.h"

namespace plimsoll::services {

// The prefix of the lease owner of a worker that uses a token.
inline constexpr absl::string_view kTokenOwnerPrefix = "token:";

// The identity of a caller, which a token, a user of this machine or a
// certificate proves.
struct Identity {
  std::string name;
  std::string tenant;
  Role role = Role::kViewer;
  // A worker with a lease owner uses leases of this owner only. It is printable
  // ASCII without spaces. Empty: the caller may touch all leases.
  std::string lease_owner = {};
};

// The tenant that a call counts for, if the caller names `wanted`: the
// identity's own tenant, even if the caller names another one. Only an
// administrator without a tenant may choose.
inline const std::string& TenantOf(const Identity& identity,
                                   const std::string& wanted) {
  const bool may_choose =
      identity.role == Role::kAdmin && identity.tenant.empty();
  return may_choose ? wanted : identity.tenant;
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_IDENTITY_H_
