#include "services/fetch/transport.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "services/fetch/curl_library.h"

namespace plimsoll::fetch {
namespace {

// Builds the head from lines and hands on the body. libcurl calls it.
class Reply {
 public:
  Reply(ReplySink& sink, const std::function<absl::Status()>& check)
      : sink_(sink), check_(check) {}

  bool TakeLine(absl::string_view line) {
    head_bytes_ += line.size();
    if (head_bytes_ > kMaxHeadBytes) {
      return Keep(absl::ResourceExhaustedError(
          absl::StrCat("the head of the server's reply has more than ",
                       kMaxHeadBytes, " bytes")));
    }
    line = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(line, "HTTP/")) {
      // A provisional reply may have come before.
      head_ = ReplyHead();
      const size_t space = std::min(line.find(' '), line.size());
      if (!absl::SimpleAtoi(line.substr(space, 4), &head_.status)) {
        head_.status = 0;
      }
    } else if (const size_t colon = line.find(':');
               colon != absl::string_view::npos) {
      head_.fields.emplace_back(
          line.substr(0, colon),
          absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
    return true;
  }

  bool TakeBody(absl::string_view bytes) {
    if (!EndHead()) return false;
    return Keep(PLIMSOLL_FAULT("fetch.read")
                    ? absl::UnavailableError("the connection broke")
                    : sink_.OnBody(bytes));
  }

  // Shows the head to the sink, once.
  bool EndHead() {
    if (has_shown_) return status_.ok();
    has_shown_ = true;
    return Keep(sink_.OnHead(head_));
  }

  bool Check() { return check_ == nullptr || Keep(check_()); }

  const absl::Status& status() const { return status_; }
  bool has_head() const { return head_.status != 0; }

 private:
  bool Keep(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return status_.ok();
  }

  ReplySink& sink_;
  const std::function<absl::Status()>& check_;
  ReplyHead head_;
  size_t head_bytes_ = 0;
  bool has_shown_ = false;
  absl::Status status_;  // the first error of ours
};

size_t OnLine(char* data, size_t /*one*/, size_t n, void* reply) {
  return static_cast<Reply*>(reply)->TakeLine({data, n}) ? n : 0;
}

size_t OnBytes(char* data, size_t /*one*/, size_t n, void* reply) {
  return static_cast<Reply*>(reply)->TakeBody({data, n}) ? n : 0;
}

int OnPoll(void* reply, curl_off_t /*download*/, curl_off_t /*so_far*/,
           curl_off_t /*upload*/, curl_off_t /*so_far*/) {
  return static_cast<Reply*>(reply)->Check() ? 0 : 1;
}

// What the caller should do about a failed exchange.
absl::StatusCode CodeOf(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return absl::StatusCode::kUnauthenticated;
    case CURLE_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_BAD_FUNCTION_ARGUMENT:
    case CURLE_UNKNOWN_OPTION:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

class CurlTransport final : public Transport {
 public:
  CurlTransport(const CurlLibrary& curl, CURL* handle, TransportOptions options)
      : curl_(curl), handle_(handle), options_(std::move(options)) {}
  ~CurlTransport() override { curl_.easy_cleanup(handle_); }

  absl::Status Get(const Url& url, const std::vector<std::string>& fields,
                   absl::Duration limit, ReplySink& sink) override;

 private:
  // Each call counts what was refused, so that no option is lost unseen.
  template <typename Value>
  void Set(CURLoption option, Value value) {
    if (curl_.easy_setopt(handle_, option, value) != CURLE_OK) ++n_refused_;
  }
  void SetOptions(const std::string& url, absl::Duration limit, Reply& reply);
  CURLcode Perform() {
    if (n_refused_ > 0) return CURLE_UNKNOWN_OPTION;
    if (PLIMSOLL_FAULT("fetch.connect")) return CURLE_COULDNT_CONNECT;
    return curl_.easy_perform(handle_);
  }

  const CurlLibrary& curl_;
  CURL* const handle_;
  const TransportOptions options_;
  int n_refused_ = 0;
};

void CurlTransport::SetOptions(const std::string& url, absl::Duration limit,
                               Reply& reply) {
  const auto seconds = [](absl::Duration time) {
    return static_cast<long>(std::max<int64_t>(absl::ToInt64Seconds(time), 1));
  };
  curl_.easy_reset(handle_);
  n_refused_ = 0;
  Set(CURLOPT_URL, url.c_str());
  Set(CURLOPT_PROTOCOLS_STR, "http,https");
  Set(CURLOPT_FOLLOWLOCATION, 0L);
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_USERAGENT, "plimsoll/" PLIMSOLL_VERSION);
  Set(CURLOPT_CONNECTTIMEOUT, seconds(options_.silence));
  Set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  Set(CURLOPT_LOW_SPEED_TIME, seconds(options_.silence));
  if (limit < absl::InfiniteDuration()) Set(CURLOPT_TIMEOUT, seconds(limit));
  // The head of a proxy's reply to CONNECT is none of the server's.
  Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  if (!options_.proxy.empty()) Set(CURLOPT_PROXY, options_.proxy.c_str());
  if (!options_.ca_file.empty() && options_.ca_file != "system") {
    Set(CURLOPT_CAINFO, options_.ca_file.c_str());
    Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  Set(CURLOPT_HEADERFUNCTION, &OnLine);
  Set(CURLOPT_HEADERDATA, static_cast<void*>(&reply));
  Set(CURLOPT_WRITEFUNCTION, &OnBytes);
  Set(CURLOPT_WRITEDATA, static_cast<void*>(&reply));
  Set(CURLOPT_NOPROGRESS, 0L);
  Set(CURLOPT_XFERINFOFUNCTION, &OnPoll);
  Set(CURLOPT_XFERINFODATA, static_cast<void*>(&reply));
}

absl::Status CurlTransport::Get(const Url& url,
                                const std::vector<std::string>& fields,
                                absl::Duration limit, ReplySink& sink) {
  const std::string text = url.Text();
  Reply reply(sink, options_.check);
  std::array<char, CURL_ERROR_SIZE> why{};
  SetOptions(text, limit, reply);
  Set(CURLOPT_ERRORBUFFER, why.data());
  curl_slist* list = nullptr;
  for (const std::string& field : fields) {
    curl_slist* const longer = curl_.slist_append(list, field.c_str());
    if (longer == nullptr) ++n_refused_;
    if (longer != nullptr) list = longer;
  }
  Set(CURLOPT_HTTPHEADER, list);
  const CURLcode code = Perform();
  if (code == CURLE_OK && reply.has_head()) reply.EndHead();
  curl_.easy_reset(handle_);  // it forgets pointers to what ends here
  curl_.slist_free_all(list);
  RETURN_IF_ERROR(reply.status());
  if (code == CURLE_OK && reply.has_head()) return absl::OkStatus();
  const absl::string_view detail(why.data());
  const absl::StatusCode kind =
      code == CURLE_OK ? absl::StatusCode::kUnavailable : CodeOf(code);
  return absl::Status(
      kind, absl::StrCat(url.Origin(), ": ",
                         detail.empty() ? curl_.easy_strerror(code) : detail,
                         kind == absl::StatusCode::kUnauthenticated
                             ? "; --tls-ca names the CAs to trust"
                             : ""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> Transport::Create(
    TransportOptions options) {
  ASSIGN_OR_RETURN(const CurlLibrary* const curl, OpenCurl());
  CURL* const handle = curl->easy_init();
  if (handle == nullptr) {
    return absl::ResourceExhaustedError("libcurl makes no handle");
  }
  return std::make_unique<CurlTransport>(*curl, handle, std::move(options));
}

}  // namespace plimsoll::fetch
