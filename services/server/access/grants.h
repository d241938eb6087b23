// Decides what callers without a token may do, by the user that they run as on
// this machine or by their certificate.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_GRANTS_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_GRANTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/server/access/identity.h"

namespace plimsoll::services {

// Each grant to a user or a group needs a gRPC listener.
inline constexpr size_t kMaxGrants = 64;
// With a grantee of this size and a worker's own name, a lease's holder has at
// most 256 bytes.
inline constexpr size_t kMaxGranteeBytes = 160;

// The kernel's id for users and groups that the server's user namespace does
// not know.
inline constexpr uint32_t kNobody = 65'534;

// The kind of a grantee.
enum class Grantee {
  kUser,        // the process's user, by a Unix socket
  kGroup,       // one of the process's groups, by a Unix socket
  kUri,         // a URI among the certificate's alternative names
  kDns,         // a DNS name among them, in upper or lower case
  kCommonName,  // the common name of the certificate's subject
};

struct Grant {
  Grantee kind = Grantee::kUser;
  uid_t uid = 0;          // only for kUser
  gid_t gid = 0;          // only for kGroup
  std::string text = {};  // for the other kinds
  Identity identity = {};

  bool is_local() const {
    return kind == Grantee::kUser || kind == Grantee::kGroup;
  }
};

// The process at the other end of a Unix socket, as the kernel names it.
struct LocalPeer {
  uid_t uid = 0;
  std::vector<gid_t> gids = {};  // all groups of the process
  pid_t pid = 0;                 // 0: its namespace is not known here
};

// The names in a client's certificate, which a CA has signed.
struct CertificateNames {
  std::vector<std::string> uris = {};
  std::vector<std::string> dns = {};
  std::string common_name = {};
};

// Parses WHO=ROLE[:TENANT]. WHO is uid:N, user:NAME, gid:N, group:NAME,
// uri:URI, dns:NAME or cn:NAME. The part after the last '=' is the role, so WHO
// may contain '='. A grant with the role of a user needs a tenant.
// Errors: kInvalidArgument saying what is wrong; also for a user or a group
// that this system does not know, and for kNobody.
absl::StatusOr<Grant> ParseGrant(absl::string_view text);

// Parses all. Errors: those of ParseGrant; kInvalidArgument for more than
// kMaxGrants grants, and for two grants for one grantee.
absl::StatusOr<std::vector<Grant>> ParseGrants(
    const std::vector<std::string>& texts);

// Returns the index of the grant for a process. A grant for its user takes
// precedence over one for a group. Among grants for groups the first one
// counts.
std::optional<size_t> FindUserGrant(const std::vector<Grant>& grants,
                                    const LocalPeer& peer);
std::optional<size_t> FindGroupGrant(const std::vector<Grant>& grants,
                                     const LocalPeer& peer);

// Returns the identity of the first grant for one of the names; nothing without
// such a grant.
std::optional<Identity> FindCertificateGrant(const std::vector<Grant>& grants,
                                             const CertificateNames& names);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_GRANTS_H_
