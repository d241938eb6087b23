// The holder of a lease, as requests name and prove it.
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

// The length of a lease's secret. Its holder chose the bytes at random.
inline constexpr size_t kMinSecretBytes = 16;
inline constexpr size_t kMaxSecretBytes = 128;

// What a caller shows to be the holder of a lease.
struct HolderProof {
  absl::string_view owner;   // its Identity::lease_owner; empty: any owner
  absl::string_view secret;  // the request's secret
};

// Returns the name in the lease book for `name`, which a request of `owner`
// uses.
std::string OwnedName(absl::string_view owner, absl::string_view name);

// Returns whether `holder` is the book's name for `name` of some owner.
bool IsNameOf(absl::string_view holder, absl::string_view name);

// Returns the form of a secret that the book keeps: its SHA-256 in hexadecimal,
// or "" if the secret is empty.
// Errors: kInvalidArgument unless the secret has kMinSecretBytes to
// kMaxSecretBytes, or is empty.
absl::StatusOr<std::string> HashSecret(absl::string_view secret);

// A lease without a secret belongs to every caller that names it and its epoch,
// because its holder is of a version without secrets. A worker whose token was
// renamed still holds its leases, because it knows their secrets. The time of
// the comparison does not depend on the secret.
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
