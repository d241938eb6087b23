#include "services/fetch/session.h"

#include <algorithm>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace plimsoll::fetch {
namespace {

// Visible ASCII, so that no line of a head can begin inside of it.
absl::Status CheckToken(absl::string_view token) {
  const bool is_plain =
      std::ranges::all_of(token, [](char c) { return c > ' ' && c < 127; });
  if (!token.empty() && is_plain && token.size() <= kMaxTokenBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a token has 1 to ", kMaxTokenBytes,
                   " visible characters of ASCII and no space"));
}

// Who shows a token without TLS shows it to everybody on the way.
absl::Status CheckSecret(const Url& origin, absl::string_view token) {
  RETURN_IF_ERROR(CheckToken(token));
  if (CheckPlainHttp(origin, /*allows_plain=*/false).ok())
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("refusing to send a token to ", origin.Origin(),
                   " without TLS, because others could read it"));
}

class BodyText final : public ReplySink {
 public:
  BodyText(size_t max_bytes, absl::string_view what)
      : max_bytes_(max_bytes), what_(what) {}

  absl::Status OnHead(const ReplyHead& head) override {
    document_.head = head;
    return absl::OkStatus();
  }

  absl::Status OnBody(absl::string_view bytes) override {
    if (document_.head.status != 200) return absl::OkStatus();
    if (bytes.size() > max_bytes_ - document_.body.size()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          what_, " has more than the ", max_bytes_, " bytes that it may have"));
    }
    document_.body.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  FetchSession::Document& document() { return document_; }

 private:
  const size_t max_bytes_;
  const absl::string_view what_;
  FetchSession::Document document_;
};

}  // namespace

absl::Status StatusOfReply(const ReplyHead& head, absl::string_view what) {
  const std::string message =
      absl::StrCat(what, ": the server answers ", head.status);
  switch (head.status) {
    case 401:
    case 403:
      return absl::PermissionDeniedError(
          absl::StrCat(message,
                       "; it may want a token (--token-file, or for a hub "
                       "$PLIMSOLL_HUB_TOKEN), or another one"));
    case 404:
    case 410:
      return absl::NotFoundError(absl::StrCat(message, ": it is not there"));
    case 408:
    case 429:
      return absl::UnavailableError(message);
    default:
      if (head.status >= 500) return absl::UnavailableError(message);
      return absl::FailedPreconditionError(message);
  }
}

// Hands the reply on unless it leads elsewhere.
struct FetchSession::Hop final : public ReplySink {
  Hop(ReplySink& sink, bool answers) : sink(sink), answers(answers) {}

  absl::Status OnHead(const ReplyHead& reply) override {
    leads_on = reply.IsRedirect() || (reply.status == 401 && answers);
    head = reply;
    if (!leads_on) return sink.OnHead(reply);
    return reply.IsRedirect() ? sink.OnRedirect(reply) : absl::OkStatus();
  }

  absl::Status OnBody(absl::string_view bytes) override {
    if (!leads_on) return sink.OnBody(bytes);
    n_dropped += bytes.size();
    if (n_dropped <= kMaxDroppedBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("a reply that leads elsewhere has more than ",
                     kMaxDroppedBytes, " bytes"));
  }

  ReplySink& sink;
  const bool answers;
  bool leads_on = false;
  size_t n_dropped = 0;
  ReplyHead head;
};

absl::Status FetchSession::ShowToken(const Url& origin,
                                     absl::string_view token) {
  RETURN_IF_ERROR(CheckSecret(origin, token));
  origin_ = origin.Origin();
  authorization_ = absl::StrCat("Authorization: Bearer ", token);
  return absl::OkStatus();
}

absl::Status FetchSession::AnswerChallenges(const Url& registry,
                                            absl::string_view password) {
  registry_ = registry.Origin();
  if (password.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSecret(registry, password));
  password_ =
      absl::StrCat("Authorization: Basic ", absl::Base64Escape(password));
  return absl::OkStatus();
}

absl::Status FetchSession::Answer(const ReplyHead& head) {
  const std::optional<BearerChallenge> challenge =
      ParseBearerChallenge(head.Field("WWW-Authenticate"));
  if (!challenge.has_value()) {
    if (password_.empty()) return StatusOfReply(head, registry_);
    // The registry gives no tokens but takes the password itself.
    origin_ = registry_;
    authorization_ = password_;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Url realm, ParseUrl(challenge->realm));
  const bool has_query = realm.path.find('?') != std::string::npos;
  absl::StrAppend(&realm.path, has_query ? "&" : "?",
                  "service=", PercentEncode(challenge->service));
  if (!challenge->scope.empty()) {
    absl::StrAppend(&realm.path, "&scope=", PercentEncode(challenge->scope));
  }
  RETURN_IF_ERROR(CheckPlainHttp(realm, allows_plain_http_));
  std::vector<std::string> fields;
  if (!password_.empty() && realm.Origin() == registry_) {
    fields.push_back(password_);
  }
  BodyText reply(kMaxTokenReplyBytes, "the registry's token");
  RETURN_IF_ERROR(transport_->Get(realm, fields, kDocumentTime, reply));
  if (reply.document().head.status != 200) {
    return StatusOfReply(reply.document().head, "the registry's token");
  }
  const nlohmann::json json = nlohmann::json::parse(
      reply.document().body, nullptr, /*allow_exceptions=*/false);
  for (const char* name : {"token", "access_token"}) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_string()) {
      continue;
    }
    const std::string token = json[name].get<std::string>();
    RETURN_IF_ERROR(CheckToken(token));
    origin_ = registry_;
    authorization_ = absl::StrCat("Authorization: Bearer ", token);
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(realm.Origin(), " gives no token for the registry"));
}

absl::Status FetchSession::Get(const Url& url,
                               const std::vector<std::string>& fields,
                               absl::Duration limit, ReplySink& sink) {
  Url here = url;
  bool may_answer = true;
  for (int n_redirects = 0; n_redirects <= kMaxRedirects;) {
    RETURN_IF_ERROR(CheckPlainHttp(here, allows_plain_http_));
    std::vector<std::string> all = fields;
    const std::string origin = here.Origin();
    if (!authorization_.empty() && origin == origin_) {
      all.push_back(authorization_);
    }
    Hop hop(sink, may_answer && origin == registry_);
    RETURN_IF_ERROR(transport_->Get(here, all, limit, hop));
    if (!hop.leads_on) return absl::OkStatus();
    if (!hop.head.IsRedirect()) {
      may_answer = false;
      RETURN_IF_ERROR(Answer(hop.head));
      continue;
    }
    ++n_redirects;
    const auto next = ResolveUrl(here, hop.head.Field("Location"));
    if (!next.ok()) {
      return absl::DataLossError(absl::StrCat(origin, " leads elsewhere, but ",
                                              next.status().message()));
    }
    if (here.is_tls() && !next->is_tls() && !allows_plain_http_) {
      return absl::FailedPreconditionError(
          absl::StrCat(origin, " leads to ", next->Origin(),
                       ", which has no TLS; --insecure-http follows it"));
    }
    here = *next;
  }
  return absl::DataLossError(absl::StrCat(url.Origin(), " leads elsewhere ",
                                          kMaxRedirects + 1, " times"));
}

absl::StatusOr<FetchSession::Document> FetchSession::GetDocument(
    const Url& url, const std::vector<std::string>& fields, size_t max_bytes,
    absl::string_view what) {
  BodyText reply(max_bytes, what);
  RETURN_IF_ERROR(Get(url, fields, kDocumentTime, reply));
  if (reply.document().head.status != 200) {
    return StatusOfReply(reply.document().head, what);
  }
  return std::move(reply.document());
}

}  // namespace plimsoll::fetch
