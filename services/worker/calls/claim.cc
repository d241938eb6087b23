#include "services/worker/calls/claim.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "services/server/access/identity.h"
#include "services/server/credentials.h"
#include "services/server/peer.h"

namespace plimsoll::services {
namespace {

// The value of a key, "" without one.
absl::string_view ValueOf(const grpc::CallbackServerContext& context,
                          const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  if (found == metadata.end()) return "";
  return {found->second.data(), found->second.size()};
}

}  // namespace

absl::StatusOr<worker::Claim> ClaimOf(
    const grpc::CallbackServerContext& context, const CallGate& gate) {
  worker::Claim claim;
  claim.peer = PeerOf(context.peer());
  const absl::string_view tenant = ValueOf(context, "x-tenant");
  const bool is_printable =
      std::all_of(tenant.begin(), tenant.end(), [](char c) {
        return absl::ascii_isgraph(static_cast<unsigned char>(c));
      });
  if (tenant.size() > kMaxTenantBytes || !is_printable) {
    return absl::InvalidArgumentError(
        absl::StrCat("x-tenant: at most ", kMaxTenantBytes,
                     " printable characters without spaces are allowed"));
  }
  claim.tenant = std::string(tenant.data(), tenant.size());
  if (const auto guard = gate.guard()) {
    const auto identity = CallerOf(context, *guard);
    if (!identity.has_value()) {
      return absl::UnauthenticatedError("the token is not valid any more");
    }
    claim.tenant = TenantOf(*identity, claim.tenant);
  }
  const absl::string_view priority = ValueOf(context, "x-priority");
  if (priority == "low") {
    claim.priority = worker::Priority::kLow;
  } else if (priority == "high") {
    claim.priority = worker::Priority::kHigh;
  } else if (!priority.empty() && priority != "normal") {
    return absl::InvalidArgumentError(
        "x-priority: must be low, normal or high");
  }
  return claim;
}

}  // namespace plimsoll::services
