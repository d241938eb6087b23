#include "services/http/request_rules.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace plimsoll::services {
namespace {

// Removes ":PORT" from NAME:PORT, and the brackets of an IPv6 address. Returns
// "" if the text has another form.
std::string NameOf(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos) return "";
    const absl::string_view rest = host.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return "";
    return std::string(host.substr(0, end));
  }
  const size_t colon = host.find(':');
  if (colon == absl::string_view::npos) return std::string(host);
  const absl::string_view port = host.substr(colon + 1);
  if (!std::all_of(port.begin(), port.end(), absl::ascii_isdigit)) return "";
  return std::string(host.substr(0, colon));
}

bool IsAddressLiteral(const std::string& name) {
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, name.c_str(), &v4) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &v6) == 1;
}

}  // namespace

bool IsAllowedHost(absl::string_view host,
                   const std::vector<std::string>& allowed) {
  const std::string name = NameOf(host);
  if (name.empty()) return false;
  if (IsAddressLiteral(name) || absl::EqualsIgnoreCase(name, "localhost")) {
    return true;
  }
  return std::any_of(allowed.begin(), allowed.end(),
                     [&name](const std::string& other) {
                       return absl::EqualsIgnoreCase(name, other);
                     });
}

bool IsAllowedOrigin(absl::string_view origin, absl::string_view host,
                     const std::vector<std::string>& allowed) {
  if (origin.empty()) return true;
  if (absl::EqualsIgnoreCase(origin, absl::StrCat("http://", host)) ||
      absl::EqualsIgnoreCase(origin, absl::StrCat("https://", host))) {
    return true;
  }
  return std::any_of(allowed.begin(), allowed.end(),
                     [origin](const std::string& other) {
                       return absl::EqualsIgnoreCase(origin, other);
                     });
}

}  // namespace plimsoll::services
