// Who holds a lease, as requests name it and prove it.
#ifndef PLIMSOLL_SERVICES_PLANNER_LEASE_HOLDER_H_
#define PLIMSOLL_SERVICES_PLANNER_LEASE_HOLDER_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/lease/lease.h"
#include "plimsoll/v1/lease.pb.h"

namespace plimsoll::services {

// A lease's secret has so many bytes, which its holder chose at random.
inline constexpr size_t kMinSecretBytes = 16;
inline constexpr size_t kMaxSecretBytes = 128;

// What a caller shows to be the holder of a lease.
struct HolderProof {
  absl::string_view owner;   // its Identity::lease_owner; empty: of any owner
  absl::string_view secret;  // the request's secret
};

// What the book calls something of `owner` that a request names.
std::string OwnedName(absl::string_view owner, absl::string_view name);

// Returns whether `holder` is what the book calls `name` for some owner.
bool IsNameOf(absl::string_view holder, absl::string_view name);

// Returns what the book keeps of a secret: its SHA-256 in hexadecimal; empty if
// the secret is.
// Errors: kInvalidArgument unless it has kMinSecretBytes to kMaxSecretBytes.
absl::StatusOr<std::string> HashSecret(absl::string_view secret);

// A lease without a secret belongs to whoever names it and its epoch: its
// holder is of a version that has no secrets. A worker whose token has another
// name now keeps its leases by their secret. How long the comparison takes does
// not depend on the secret.
// Errors: kPermissionDenied if the caller is not the holder.
absl::Status CheckHolder(const planner::Lease& lease, const HolderProof& proof);

// Returns the process's name for the book; empty if the message has none.
// Errors: kInvalidArgument if the message names no process.
absl::StatusOr<std::string> ProcessName(bool has_process,
                                        const v1::ProcessIdentity& process);

// Returns the name of the process in the book. An identity that is not valid
// holds nothing.
std::string BookName(const v1::ProcessIdentity& process);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_LEASE_HOLDER_H_
