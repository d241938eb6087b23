#include "services/planner/lease_holder.h"

#include <openssl/crypto.h>

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/process_identity.h"
#include "services/server/access/identity.h"
#include "services/server/access/token_list.h"
#include "services/wire/from_proto.h"

namespace plimsoll::services {
namespace {

std::string HashInHex(absl::string_view secret) {
  const TokenHash hash = HashToken(secret);
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(hash.data()), hash.size()});
}

bool IsSecretOf(const planner::Lease& lease, absl::string_view secret) {
  if (lease.secret_hash.empty()) return true;
  if (secret.size() > kMaxSecretBytes) return false;
  const std::string hash = HashInHex(secret);
  return hash.size() == lease.secret_hash.size() &&
         CRYPTO_memcmp(hash.data(), lease.secret_hash.data(), hash.size()) == 0;
}

}  // namespace

std::string OwnedName(absl::string_view owner, absl::string_view name) {
  if (owner.empty() || name.empty()) return std::string(name);
  return absl::StrCat(owner, " ", name);
}

bool IsNameOf(absl::string_view holder, absl::string_view name) {
  return holder == name || absl::EndsWith(holder, absl::StrCat(" ", name));
}

absl::StatusOr<std::string> HashSecret(absl::string_view secret) {
  if (secret.empty()) return std::string();
  if (secret.size() >= kMinSecretBytes && secret.size() <= kMaxSecretBytes) {
    return HashInHex(secret);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "secret has ", secret.size(), " bytes, not ", kMinSecretBytes, " to ",
      kMaxSecretBytes, "; choose it at random, or leave it out"));
}

absl::Status CheckHolder(const planner::Lease& lease,
                         const HolderProof& proof) {
  // Owners have no spaces.
  const bool is_owner =
      proof.owner.empty() ||
      absl::StartsWith(lease.holder, absl::StrCat(proof.owner, " "));
  // Two tokens that are valid at once have two names.
  const bool may_be_renamed =
      absl::StartsWith(proof.owner, kTokenOwnerPrefix) &&
      !lease.secret_hash.empty();
  if (!is_owner && !may_be_renamed) {
    return absl::PermissionDeniedError("the lease belongs to another worker");
  }
  if (IsSecretOf(lease, proof.secret)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "the secret of the lease is missing or wrong: only its holder has it. An "
      "administrator releases the lease of a holder that is gone by "
      "ForceRelease");
}

absl::StatusOr<std::string> ProcessName(bool has_process,
                                        const v1::ProcessIdentity& process) {
  if (!has_process) return std::string();
  ASSIGN_OR_RETURN(const int64_t ticks,
                   Signed(process.start_ticks(), "process.start_ticks"));
  ASSIGN_OR_RETURN(const int64_t pid_namespace,
                   Signed(process.pid_namespace(), "process.pid_namespace"));
  std::string name = ToString({.pid = process.pid(),
                               .start_ticks = ticks,
                               .boot_id = process.boot_id(),
                               .pid_namespace = pid_namespace});
  if (ParseIdentity(name).has_value()) return name;
  return absl::InvalidArgumentError(
      "process: a pid and a boot_id of 1 to 64 bytes without ':' are needed");
}

std::string BookName(const v1::ProcessIdentity& process) {
  return ToString(
      {.pid = process.pid(),
       .start_ticks = static_cast<int64_t>(process.start_ticks()),
       .boot_id = process.boot_id(),
       .pid_namespace = static_cast<int64_t>(process.pid_namespace())});
}

}  // namespace plimsoll::services
