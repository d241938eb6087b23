// Makes requests that follow redirects, and sends each token only to its own
// server.
#ifndef PLIMSOLL_SERVICES_FETCH_SESSION_H_
#define PLIMSOLL_SERVICES_FETCH_SESSION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/fetch/fields.h"
#include "services/fetch/transport.h"
#include "services/fetch/url.h"

namespace plimsoll::fetch {

inline constexpr int kMaxRedirects = 8;
inline constexpr size_t kMaxTokenBytes = 16 << 10;
inline constexpr size_t kMaxTokenReplyBytes = 256 << 10;
// The most bytes of a redirect's body.
inline constexpr size_t kMaxDroppedBytes = 256 << 10;
// A whole document, such as a manifest, takes at most this long.
inline constexpr absl::Duration kDocumentTime = absl::Minutes(5);

// The error for a reply's status; `what` is the requested object.
absl::Status StatusOfReply(const ReplyHead& head, absl::string_view what);

// Not thread-safe.
class FetchSession {
 public:
  FetchSession(std::unique_ptr<Transport> transport, bool allows_plain_http)
      : transport_(std::move(transport)),
        allows_plain_http_(allows_plain_http) {}

  // Sends `token` only to the server of `origin`. With a registry's token,
  // USER:PASSWORD, a token for one repository is requested.
  // Errors: kInvalidArgument if it has characters that a field may not have or
  // is longer than kMaxTokenBytes; kFailedPrecondition if others could read it
  // on the way.
  absl::Status ShowToken(const Url& origin, absl::string_view token);
  // Answers the challenges of a registry's server. `password` is empty or
  // USER:PASSWORD; only the registry's own server gets it.
  // Errors: those of ShowToken.
  absl::Status AnswerChallenges(const Url& registry,
                                absl::string_view password);

  // GETs `url`; `sink` gets the last reply, with any status.
  // Errors: those of Transport::Get; kFailedPrecondition for plain HTTP that is
  // not allowed, and for a redirect from TLS to plain HTTP; kDataLoss for more
  // than kMaxRedirects redirects, or one without a valid target;
  // kPermissionDenied if a registry's challenge cannot be answered.
  absl::Status Get(const Url& url, const std::vector<std::string>& fields,
                   absl::Duration limit, ReplySink& sink);

  struct Document {
    ReplyHead head;
    std::string body;
  };
  // GETs a document of at most `max_bytes`; errors call it `what`.
  // Errors: those of Get and of StatusOfReply; kResourceExhausted if it is
  // longer.
  absl::StatusOr<Document> GetDocument(const Url& url,
                                       const std::vector<std::string>& fields,
                                       size_t max_bytes,
                                       absl::string_view what);

 private:
  // Makes one exchange. A redirect or a challenge does not reach `sink`.
  struct Hop;
  // Gets the token that `head`, a refusal of the registry, asks for.
  absl::Status Answer(const ReplyHead& head);

  std::unique_ptr<Transport> transport_;
  bool allows_plain_http_;
  std::string origin_;         // the server that gets the next field
  std::string authorization_;  // empty, or "Authorization: ..."
  std::string registry_;       // origin whose challenges are answered
  std::string password_;       // "Authorization: Basic ...", for that origin
};

}  // namespace plimsoll::fetch

#endif  // PLIMSOLL_SERVICES_FETCH_SESSION_H_
