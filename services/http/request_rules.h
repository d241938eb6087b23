// Checks of the headers Host and Origin, against requests that a web page
// tricks a browser into sending.
#ifndef PLIMSOLL_SERVICES_HTTP_REQUEST_RULES_H_
#define PLIMSOLL_SERVICES_HTTP_REQUEST_RULES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// Returns whether a request with this Host header is answered. A page can point
// its own name at any address (DNS rebinding), but it must have a name. So
// addresses and "localhost" are allowed, with any port; other names only if
// they are in `allowed`.
bool IsAllowedHost(absl::string_view host,
                   const std::vector<std::string>& allowed);

// Returns whether a request that changes something is answered. Browsers name
// the page that sends a request in Origin. Other clients send no such header;
// `origin` is then empty. The page must come from this server, whose Host
// header is `host`, or be one of `allowed`, such as "https://chat.example.com".
bool IsAllowedOrigin(absl::string_view origin, absl::string_view host,
                     const std::vector<std::string>& allowed);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_REQUEST_RULES_H_
