#include "services/worker/calls/claim.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

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

// The first 64 bits, which one user has as a rule; "" if it is none.
std::string NetworkOf(const std::string& ipv6) {
  std::array<unsigned char, 16> bytes = {};
  if (inet_pton(AF_INET6, ipv6.c_str(), bytes.data()) != 1) return "";
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(bytes.data()), 8});
}

}  // namespace

std::string PeerOf(absl::string_view uri) {
  if (absl::ConsumePrefix(&uri, "ipv4:")) {
    return std::string(uri.substr(0, uri.rfind(':')));
  }
  if (!absl::ConsumePrefix(&uri, "ipv6:")) return "";
  std::string address(uri.substr(0, uri.rfind(':')));
  for (const char* bracket : {"%5B", "%5D", "[", "]"}) {
    address = absl::StrReplaceAll(address, {{bracket, ""}});
  }
  // Without the zone of a link-local one.
  return NetworkOf(address.substr(0, address.find('%')));
}

absl::StatusOr<worker::Claim> ClaimOf(
    const grpc::CallbackServerContext& context) {
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
