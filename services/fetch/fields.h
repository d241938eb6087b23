// Reads the fields of HTTP replies.
#ifndef PLIMSOLL_SERVICES_FETCH_FIELDS_H_
#define PLIMSOLL_SERVICES_FETCH_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::fetch {

// The status and the fields of a reply.
struct ReplyHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;

  // The value of the first field of this name, in any case; empty if absent.
  absl::string_view Field(absl::string_view name) const;
  // The number in Content-Length; nothing if it is absent or invalid.
  std::optional<int64_t> Length() const;
  // True for a redirect that names its target.
  bool IsRedirect() const;
};

// Content-Range: bytes 10-19/20. A part that is "*" is absent.
struct ContentRange {
  std::optional<int64_t> first;
  std::optional<int64_t> last;
  std::optional<int64_t> total;
};

// Returns nothing if the field has another form or contradicts itself.
std::optional<ContentRange> ParseContentRange(absl::string_view text);

// The answer of a registry that requires a token: the place to get a token, and
// its scope.
struct BearerChallenge {
  std::string realm;
  std::string service;
  std::string scope;
};

// Reads WWW-Authenticate: Bearer realm="...",service="...",scope="...".
// Nothing if it has another scheme, no realm, or cannot be read.
std::optional<BearerChallenge> ParseBearerChallenge(absl::string_view text);

// The text of a strong validator ("abc" with its quotes); empty for a weak or
// missing validator.
std::string StrongETag(absl::string_view text);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_FIELDS_H_
