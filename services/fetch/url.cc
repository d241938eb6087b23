#include "services/fetch/url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "services/server/access/listen_address.h"

namespace plimsoll::fetch {
namespace {

constexpr char kHexDigits[] = "0123456789ABCDEF";

absl::Status BadUrl(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text.substr(0, 100), "' is no URL: ", why));
}

// Printable ASCII without what no URL has.
bool IsUrlCharacter(char c) {
  return c > ' ' && c < 127 && c != '\\' && c != '"' && c != '<' && c != '>' &&
         c != '^' && c != '`' && c != '{' && c != '|' && c != '}';
}

bool IsHostCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '.' || c == '_';
}

bool IsPort(absl::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::ranges::all_of(text, [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c));
         });
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string PercentDecode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 &&
        HexValue(text[i + 2]) >= 0) {
      const int value = HexValue(text[i + 1]) * 16 + HexValue(text[i + 2]);
      decoded.push_back(static_cast<char>(value));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// Reads "host", "host:port" or "[::1]:port" into `url`.
absl::Status ReadAuthority(absl::string_view authority, absl::string_view text,
                           Url& url) {
  if (absl::StrContains(authority, "@")) {
    return BadUrl(text.substr(0, text.find(':')),
                  "leave out the user and the password, which would show up "
                  "in lists of processes");
  }
  absl::string_view host = authority;
  absl::string_view port;
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos) return BadUrl(text, "']' is missing");
    port = host.substr(end + 1);
    host = host.substr(0, end);
    const bool is_address = std::ranges::all_of(
        host, [](char c) { return HexValue(c) >= 0 || c == ':' || c == '.'; });
    if (!is_address) return BadUrl(text, "its host is no IPv6 address");
  } else {
    const size_t colon = std::min(host.find(':'), host.size());
    port = host.substr(colon);
    host = host.substr(0, colon);
    if (!std::ranges::all_of(host, IsHostCharacter)) {
      return BadUrl(text, "its host has a character that no host has");
    }
  }
  if (host.empty() || host.size() > kMaxHostBytes) {
    return BadUrl(text, "it has no host");
  }
  if (!port.empty() && !(absl::ConsumePrefix(&port, ":") && IsPort(port))) {
    return BadUrl(text, "its port is no number");
  }
  url.host = absl::AsciiStrToLower(host);
  url.port = std::string(port);
  return absl::OkStatus();
}

// `text` with all bytes but letters, digits and those of `plain` as %XX.
std::string EncodeAllBut(absl::string_view text, absl::string_view plain) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || plain.find(c) != plain.npos) {
      encoded.push_back(c);
    } else {
      encoded.push_back('%');
      encoded.push_back(kHexDigits[byte >> 4]);
      encoded.push_back(kHexDigits[byte & 15]);
    }
  }
  return encoded;
}

}  // namespace

std::string Url::Origin() const {
  const bool is_v6 = absl::StrContains(host, ":");
  return absl::StrCat(scheme, "://", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                      ":",
                      !port.empty() ? port.c_str()
                      : is_tls()    ? "443"
                                    : "80");
}

std::string Url::Text() const {
  const bool is_v6 = absl::StrContains(host, ":");
  return absl::StrCat(scheme, "://", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                      port.empty() ? "" : ":", port, path);
}

std::string Url::Place() const {
  const std::string text = Text();
  return text.substr(0, text.find('?'));
}

std::string Url::LastSegment() const {
  const absl::string_view whole = path;
  const absl::string_view plain = whole.substr(0, whole.find('?'));
  return PercentDecode(plain.substr(plain.rfind('/') + 1));
}

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  if (text.size() > kMaxUrlBytes) {
    return BadUrl(text,
                  absl::StrCat("it has more than ", kMaxUrlBytes, " bytes"));
  }
  if (!std::ranges::all_of(text, IsUrlCharacter)) {
    return BadUrl(text, "it has a character that no URL has");
  }
  const size_t colon = text.find("://");
  if (colon == absl::string_view::npos) {
    return BadUrl(text, "it does not begin with https://");
  }
  Url url;
  url.scheme = absl::AsciiStrToLower(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") {
    return BadUrl(text, "only http and https are spoken");
  }
  absl::string_view rest = text.substr(colon + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  RETURN_IF_ERROR(ReadAuthority(rest.substr(0, end), text, url));
  rest.remove_prefix(end);
  url.path =
      absl::StartsWith(rest, "/") ? std::string(rest) : absl::StrCat("/", rest);
  return url;
}

absl::StatusOr<Url> ResolveUrl(const Url& base, absl::string_view location) {
  const size_t scheme_end = location.find("://");
  if (scheme_end != absl::string_view::npos &&
      location.find_first_of("/?#") > scheme_end) {
    return ParseUrl(location);
  }
  if (absl::StartsWith(location, "//")) {
    return ParseUrl(absl::StrCat(base.scheme, ":", location));
  }
  Url origin = base;
  const absl::string_view path = base.path;
  const absl::string_view plain = path.substr(0, path.find('?'));
  if (absl::StartsWith(location, "/")) {
    origin.path.clear();
  } else if (absl::StartsWith(location, "?")) {
    origin.path = std::string(plain);
  } else {
    origin.path = std::string(plain.substr(0, plain.rfind('/') + 1));
  }
  return ParseUrl(absl::StrCat(origin.Text(), location));
}

std::string PercentEncode(absl::string_view text) {
  return EncodeAllBut(text, "-._~");
}

std::string PercentEncodePath(absl::string_view path) {
  return EncodeAllBut(path, "-._~/");
}

absl::Status CheckPlainHttp(const Url& url, bool allows_plain) {
  if (url.is_tls() || allows_plain || services::IsLoopback(url.host)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("refusing to fetch from ", url.Origin(),
                   " without TLS, because others could change what comes; "
                   "--insecure-http does it anyway"));
}

}  // namespace plimsoll::fetch
