// HTTP URLs: their parts, the targets of redirects, and the check whether a URL
// may be requested.
#ifndef PLIMSOLL_SERVICES_FETCH_URL_H_
#define PLIMSOLL_SERVICES_FETCH_URL_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::fetch {

inline constexpr size_t kMaxUrlBytes = 8'192;
inline constexpr size_t kMaxHostBytes = 253;

// The parts of an absolute URL. Scheme and host are in lower case.
struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // an IPv6 address has no brackets here
  std::string port;    // empty: the scheme's
  std::string path;    // from the first slash, with the query

  bool is_tls() const { return scheme == "https"; }
  // "https://host:port", always with the port; equal for all URLs of a server.
  std::string Origin() const;
  // The URL as text; it has no fragment.
  std::string Text() const;
  // Text() without the query, which may have secrets.
  std::string Place() const;
  // The last segment of the path, without the query, decoded.
  std::string LastSegment() const;
};

// Parses an absolute URL.
// Errors: kInvalidArgument if it is longer than kMaxUrlBytes, has characters
// that URLs may not have, another scheme than http and https, no host, or a
// user name or password.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

// The target of the redirect `location` that `base` answered with.
// Errors: those of ParseUrl.
absl::StatusOr<Url> ResolveUrl(const Url& base, absl::string_view location);

// `text` with all bytes except letters, digits and "-._~" as %XX.
std::string PercentEncode(absl::string_view text);
// PercentEncode, but slashes stay.
std::string PercentEncodePath(absl::string_view path);

// Checks that `url` may be requested: it uses TLS, it is on loopback, or
// `allows_plain` is true.
// Errors: kFailedPrecondition that names the flag.
absl::Status CheckPlainHttp(const Url& url, bool allows_plain);

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_URL_H_
