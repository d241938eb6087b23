// One exchange of HTTP: a request for a URL and its reply, by libcurl.
#ifndef PLIMSOLL_SERVICES_FETCH_TRANSPORT_H_
#define PLIMSOLL_SERVICES_FETCH_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/fetch/fields.h"
#include "services/fetch/url.h"

namespace plimsoll::fetch {

// Bytes of all lines of a reply's head.
inline constexpr size_t kMaxHeadBytes = 64 << 10;

// Takes the parts of a reply. An error ends the exchange and is its result.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // Called once, before the body.
  virtual absl::Status OnHead(const ReplyHead& head) = 0;
  virtual absl::Status OnBody(absl::string_view bytes) = 0;
  // A redirect; the reply from its target follows.
  virtual absl::Status OnRedirect(const ReplyHead& /*head*/) {
    return absl::OkStatus();
  }
};

struct TransportOptions {
  std::string ca_file;  // empty or "system": the system's CAs
  std::string proxy;    // empty: by http_proxy, https_proxy and no_proxy
  // The longest silence of a server.
  absl::Duration silence = absl::Seconds(60);
  // Called repeatedly; an error ends the exchange.
  std::function<absl::Status()> check;
};

// Not thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  // Errors: those of OpenCurl; kFailedPrecondition.
  static absl::StatusOr<std::unique_ptr<Transport>> Create(
      TransportOptions options);

  // GETs `url` with further `fields` ("Name: value"). The exchange takes at
  // most `limit`. Redirects are not followed.
  // Errors: kUnavailable if the server or its proxy cannot be reached, is
  // silent or breaks off; kUnauthenticated if its certificate is not trusted;
  // kResourceExhausted if the head is longer than kMaxHeadBytes; those of
  // `sink` and of the options' check.
  virtual absl::Status Get(const Url& url,
                           const std::vector<std::string>& fields,
                           absl::Duration limit, ReplySink& sink) = 0;
};

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_TRANSPORT_H_
