#include "services/http/http_connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sync/fault.h"
#include "services/host/random_id.h"
#include "services/http/http_errors.h"
#include "services/http/reply_bytes.h"
#include "services/http/request_rules.h"
#include "services/server/peer.h"
#include "services/server/request_id.h"
#include "services/tracing/trace_context.h"

namespace plimsoll::services {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// Bytes that are written at once.
constexpr size_t kWriteBytes = 64 << 10;
// Bytes beyond the headers that one read may bring.
constexpr size_t kSlackBytes = 1 << 10;
// The first read of a request.
constexpr size_t kFirstBytes = 512;
// Bytes that are read and dropped after the last reply.
constexpr size_t kMaxLingerBytes = 4 << 20;

std::chrono::milliseconds ToChrono(absl::Duration duration) {
  return std::chrono::milliseconds(absl::ToInt64Milliseconds(duration));
}

// The strings of Boost differ between its versions.
template <typename View>
std::string ToString(const View& view) {
  return std::string(view.data(), view.size());
}

// What the client says of its trace; nothing if that is not good.
std::optional<TraceContext> TraceOfHeaders(const http::fields& headers) {
  // Two traceparents are as bad as none.
  if (headers.count(kTraceParentKey) != 1) return std::nullopt;
  std::string state;
  const auto [begin, end] = headers.equal_range(kTraceStateKey);
  for (auto one = begin; one != end; ++one) {
    absl::StrAppend(&state, state.empty() ? "" : ",", ToString(one->value()));
  }
  return ParseTrace(ToString(headers[kTraceParentKey]), state);
}

}  // namespace

template <typename Work>
void SocketReply::Post(Work work) {
  if (connection_.expired()) return;
  // It holds neither: what is never run would keep the context.
  asio::post(*context_, [connection = connection_, reply = weak_from_this(),
                         work]() mutable {
    const std::shared_ptr<HttpConnection> at = connection.lock();
    const std::shared_ptr<SocketReply> self = reply.lock();
    if (at != nullptr && self != nullptr && at->Owns(self.get())) work(*at);
  });
}

void SocketReply::Send(HttpResponse response) {
  auto shared = std::make_shared<HttpResponse>(std::move(response));
  Post([shared](HttpConnection& at) { at.SendWhole(std::move(*shared)); });
}

void SocketReply::Compose(std::function<HttpResponse()> compose) {
  Post([compose = std::move(compose)](HttpConnection& at) {
    at.SendWhole(compose());
  });
}

void SocketReply::Stream(std::shared_ptr<EventSource> source) {
  Post([source = std::move(source)](HttpConnection& at) {
    at.BeginStream(source);
  });
}

void SocketReply::Wake() {
  if (is_woken_.exchange(true)) return;
  // Whoever runs it has the reply.
  Post([this](HttpConnection& at) {
    is_woken_ = false;
    at.Pump();
  });
}

void SocketReply::Repeat(std::function<bool()> again) {
  Post([again = std::move(again)](HttpConnection& at) { at.Repeat(again); });
}

void SocketReply::OnGone(std::function<void()> told) {
  {
    absl::MutexLock lock(&mu_);
    if (is_ended_ && !is_gone_) return;
    if (!is_gone_) {
      told_ = std::move(told);
      return;
    }
  }
  told();
}

void SocketReply::End(bool is_gone) {
  std::function<void()> told;
  {
    absl::MutexLock lock(&mu_);
    if (is_ended_) return;
    is_ended_ = true;
    is_gone_ = is_gone;
    told.swap(told_);
  }
  if (is_gone && told != nullptr) told();
}

void HttpConnection::Start() {
  error_code ignored;
  stream_.tcp().socket().set_option(tcp::no_delay(true), ignored);
  const tcp::endpoint end = stream_.tcp().socket().remote_endpoint(ignored);
  const std::string address = end.address().to_string(ignored);
  peer_ =
      PeerOf(end.address().is_v4() ? absl::StrCat("ipv4:", address, ":0")
                                   : absl::StrCat("ipv6:[", address, "]:0"));
  if (!stream_.speaks_tls()) return AwaitRequest();
  core_->handshakes.push_back(this);
  stream_.tcp().expires_after(ToChrono(limits_.handshake_time));
  stream_.AsyncHandshake([self = shared_from_this()](const error_code& error) {
    self->OnHandshake(error);
  });
}

void HttpConnection::OnHandshake(const error_code& error) {
  if (is_closed_) return;
  core_->handshakes.remove(this);
  if (!error) return AwaitRequest();
  stream_.UseBareSocket();
  // The client may have sent more already, so closing at once might keep it
  // from reading why.
  if (!IsPlainHttp(error)) return Linger();
  request_id_ = RandomId();
  Refuse(ErrorResponse(400, "this port speaks TLS; call it by https://"));
}

void HttpConnection::AwaitRequest() {
  buffer_ = beast::flat_buffer(limits_.header_bytes + kSlackBytes);
  const bool is_first = n_requests_ == 0;
  stream_.tcp().expires_after(
      ToChrono(is_first ? limits_.header_time : limits_.idle_time));
  stream_.async_read_some(buffer_.prepare(kFirstBytes),
                          Bind(&HttpConnection::OnFirstBytes));
}

void HttpConnection::OnFirstBytes(const error_code& error, size_t bytes) {
  if (error) return Close();
  buffer_.commit(bytes);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser_->body_limit(limits_.body_bytes);
  request_id_ = RandomId();
  stream_.tcp().expires_after(ToChrono(limits_.header_time));
  http::async_read_header(stream_, buffer_, *parser_,
                          Bind(&HttpConnection::OnHeader));
}

void HttpConnection::FailToRead(const error_code& error) {
  if (error == http::error::header_limit ||
      error == http::error::buffer_overflow) {
    return Refuse(ErrorResponse(
        431, absl::StrCat("the request line and the headers have more than ",
                          limits_.header_bytes, " bytes")));
  }
  if (error == http::error::body_limit) {
    return Refuse(ErrorResponse(
        413,
        absl::StrCat("the body has more than ", limits_.body_bytes, " bytes")));
  }
  const bool is_ill_formed =
      error.category() ==
          http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream &&
      error != http::error::partial_message;
  if (!is_ill_formed) return Close();
  Refuse(ErrorResponse(400, "this is not a request of HTTP/1.1"));
}

void HttpConnection::OnHeader(const error_code& error, size_t bytes) {
  if (error) return FailToRead(error);
  // The parser's own limit is not exact.
  if (bytes > limits_.header_bytes) {
    return FailToRead(http::error::header_limit);
  }
  const auto& request = parser_->get();
  const std::string id = ToString(request["x-request-id"]);
  if (IsGoodRequestId(id)) request_id_ = id;
  ++n_requests_;
  is_head_ = request.method() == http::verb::head;
  keeps_alive_ = request.keep_alive() &&
                 n_requests_ < limits_.requests_per_connection &&
                 !core_->is_draining;
  if (request.version() != 11) {
    return Refuse(ErrorResponse(505, "this server speaks HTTP/1.1 only"));
  }
  if (request.target().size() > limits_.target_bytes) {
    return Refuse(
        ErrorResponse(414, absl::StrCat("the target has more than ",
                                        limits_.target_bytes, " bytes")));
  }
  const absl::Status status = Admit();
  if (!status.ok()) return Refuse(ErrorResponse(status));
  if (!absl::EqualsIgnoreCase(Header(http::field::expect), "100-continue")) {
    return ReadBody();
  }
  static constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
  stream_.tcp().expires_after(ToChrono(limits_.reader_time));
  asio::async_write(stream_, asio::buffer(kContinue, sizeof(kContinue) - 1),
                    Bind(&HttpConnection::OnContinueSent));
}

absl::Status HttpConnection::Admit() {
  const std::string host = Header(http::field::host);
  if (!core_->options.allows_any_host &&
      !IsAllowedHost(host, core_->options.allowed_hosts)) {
    return absl::PermissionDeniedError(
        "the Host header must be an address, localhost or a name that "
        "--allow-host gives");
  }
  if (parser_->get().method() != http::verb::get &&
      parser_->get().method() != http::verb::head &&
      !IsAllowedOrigin(Header(http::field::origin), host,
                       core_->options.allowed_origins)) {
    return absl::PermissionDeniedError(
        "the Origin header must be this server or an origin that "
        "--allow-origin gives");
  }
  held_ = core_->messages.Enter(peer_);
  const auto length = parser_->content_length();
  const size_t bytes = parser_->chunked()
                           ? limits_.body_bytes
                           : static_cast<size_t>(length.value_or(0));
  return held_.Grow(static_cast<int64_t>(bytes));
}

void HttpConnection::OnContinueSent(const error_code& error, size_t) {
  if (error) return Close();
  ReadBody();
}

void HttpConnection::ReadBody() {
  if (parser_->is_done()) return Dispatch();
  stream_.tcp().expires_after(ToChrono(limits_.body_time));
  http::async_read(stream_, buffer_, *parser_, Bind(&HttpConnection::OnBody));
}

void HttpConnection::OnBody(const error_code& error, size_t) {
  if (error) return FailToRead(error);
  Dispatch();
}

void HttpConnection::Dispatch() {
  HttpRequest request;
  auto& parsed = parser_->get();
  request.method = ToString(parsed.method_string());
  request.path = ToString(parsed.target());
  request.path.resize(std::min(request.path.find('?'), request.path.size()));
  request.session = ToString(parsed["x-plimsoll-session"]);
  request.if_none_match = Header(http::field::if_none_match);
  request.trace = TraceOfHeaders(parsed);
  request.authorization = Header(http::field::authorization);
  if (const auto key = parsed.find("x-api-key");
      key != parsed.end() && request.authorization.empty()) {
    request.authorization = absl::StrCat("Bearer ", ToString(key->value()));
  }
  request.body = std::move(parsed.body());
  request.peer = peer_;
  request.request_id = request_id_;
  held_.Shrink(static_cast<int64_t>(request.body.size()));
  request.held = std::exchange(held_, {});
  keeps_alive_ &= buffer_.size() == 0;
  parser_.reset();
  buffer_ = beast::flat_buffer();
  stream_.tcp().expires_never();
  reply_ = std::make_shared<SocketReply>(core_->context, weak_from_this());
  WatchPeer();
  core_->handler(std::move(request), reply_);
}

// TLS tells by reading alone whether a client is gone, so this reads what might
// be the next request.
void HttpConnection::WatchPeer() {
  buffer_ = beast::flat_buffer(limits_.header_bytes + kSlackBytes);
  is_watching_ = true;
  stream_.async_read_some(buffer_.prepare(kFirstBytes),
                          Bind(&HttpConnection::OnWatched));
}

void HttpConnection::OnWatched(const error_code& error, size_t bytes) {
  is_watching_ = false;
  if (is_closed_) return;
  if (reply_ != nullptr) {
    if (error) return Gone();
    // The next request came too early; the present one is still answered.
    keeps_alive_ = false;
    return;
  }
  // EndReply has cancelled it, unless a quick client was first.
  if (error && error != asio::error::operation_aborted) return Close();
  if (!StaysOpen()) return Linger();
  if (error) return AwaitRequest();
  OnFirstBytes(error, bytes);
}

void HttpConnection::Refuse(HttpResponse response) {
  keeps_alive_ = false;
  held_ = {};
  reply_ = std::make_shared<SocketReply>(core_->context, weak_from_this());
  SendWhole(std::move(response));
}

void HttpConnection::SendWhole(HttpResponse response) {
  if (is_closed_ || source_ != nullptr || is_last_) return;
  // Behind "not modified" comes nothing, whatever a length would say.
  const std::string length =
      response.status == 304
          ? ""
          : absl::StrCat("Content-Length: ", response.body.size());
  out_ =
      HeadBytes(response.status, response.content_type, length, keeps_alive_);
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&out_, name, ": ", value, "\r\n");
  }
  absl::StrAppend(&out_, "X-Request-Id: ", request_id_, "\r\n\r\n");
  // The body of a page of metrics has a megabyte, which is not copied.
  response_ = std::move(response);
  if (is_head_) response_.body = {};
  is_last_ = true;
  Write();
}

void HttpConnection::BeginStream(std::shared_ptr<EventSource> source) {
  if (is_closed_ || source_ != nullptr || is_last_) return;
  source_ = std::move(source);
  out_ = HeadBytes(200, source_->content_type(),
                   "Cache-Control: no-cache\r\nTransfer-Encoding: chunked",
                   keeps_alive_);
  absl::StrAppend(&out_, "X-Request-Id: ", request_id_, "\r\n\r\n");
  Pump();
}

void HttpConnection::Pump() {
  if (is_closed_ || source_ == nullptr || is_writing_ || is_last_) return;
  const EventSource::Events events = source_->Take();
  if (!events.bytes.empty()) out_ += ChunkBytes(events.bytes);
  if (events.is_last) {
    out_ += "0\r\n\r\n";
    is_last_ = true;
  }
  if (!out_.empty()) Write();
}

void HttpConnection::Repeat(std::function<bool()> again) {
  if (is_closed_) return;
  if (!timer_.has_value()) timer_.emplace(*core_->context);
  timer_->expires_after(ToChrono(limits_.notice_time));
  // It holds no reply: the call that `again` belongs to may outlive it.
  timer_->async_wait([connection = weak_from_this(),
                      reply = std::weak_ptr<SocketReply>(reply_),
                      again = std::move(again)](const error_code& error) {
    const std::shared_ptr<HttpConnection> self = connection.lock();
    const std::shared_ptr<SocketReply> of = reply.lock();
    if (error || self == nullptr || of == nullptr) return;
    if (self->Owns(of.get()) && again()) self->Repeat(again);
  });
}

std::array<asio::const_buffer, 2> HttpConnection::NextBytes() const {
  const size_t at = std::min(n_written_, out_.size());
  const size_t n = std::min(out_.size() - at, kWriteBytes);
  const size_t body_at = n_written_ - at;
  return {
      asio::buffer(out_.data() + at, n),
      asio::buffer(response_.body.data() + body_at,
                   std::min(response_.body.size() - body_at, kWriteBytes - n))};
}

void HttpConnection::Write() {
  is_writing_ = true;
  stream_.tcp().expires_after(ToChrono(limits_.reader_time));
  asio::async_write(stream_, NextBytes(), Bind(&HttpConnection::OnWritten));
}

void HttpConnection::OnWritten(const error_code& error, size_t bytes) {
  is_writing_ = false;
  if (is_closed_) return;
  if (error || PLIMSOLL_FAULT("http.write")) return Gone();
  n_written_ += bytes;
  if (n_written_ < out_.size() + response_.body.size()) return Write();
  out_.clear();
  n_written_ = 0;
  stream_.tcp().expires_never();
  if (is_last_) return EndReply();
  Pump();
}

void HttpConnection::EndReply() {
  out_ = {};
  timer_.reset();
  source_.reset();
  response_ = {};
  is_last_ = false;
  reply_->End(/*is_gone=*/false);
  reply_.reset();
  if (is_watching_) return stream_.tcp().cancel();  // OnWatched goes on
  if (!StaysOpen()) return Linger();
  AwaitRequest();
}

void HttpConnection::Gone() {
  if (reply_ != nullptr) reply_->End(/*is_gone=*/true);
  Close();
}

// Closing at once would reset the connection where more of a request comes, and
// the client might lose the reply.
void HttpConnection::Linger() {
  stream_.tcp().expires_after(ToChrono(limits_.linger_time));
  if (!stream_.speaks_tls()) return DropRest();
  stream_.AsyncEndTls([self = shared_from_this()](const error_code&) {
    self->stream_.UseBareSocket();
    if (!self->is_closed_) self->DropRest();
  });
}

void HttpConnection::DropRest() {
  error_code ignored;
  stream_.tcp().socket().shutdown(tcp::socket::shutdown_send, ignored);
  buffer_ = beast::flat_buffer(kFirstBytes * 2);
  stream_.async_read_some(buffer_.prepare(kFirstBytes),
                          Bind(&HttpConnection::OnLingered));
}

void HttpConnection::OnLingered(const error_code& error, size_t bytes) {
  n_lingered_ += bytes;
  if (error || n_lingered_ > kMaxLingerBytes) return Close();
  stream_.async_read_some(buffer_.prepare(kFirstBytes),
                          Bind(&HttpConnection::OnLingered));
}

void HttpConnection::Drain() {
  keeps_alive_ = false;
  if (reply_ == nullptr && !parser_.has_value()) Close();
}

void HttpConnection::Close() {
  if (std::exchange(is_closed_, true)) return;
  error_code ignored;
  stream_.tcp().socket().close(ignored);
  timer_.reset();
  source_.reset();
  if (reply_ != nullptr) reply_->End(/*is_gone=*/true);
  reply_.reset();
  held_ = {};
  core_->handshakes.remove(this);
  core_->connections.erase(this);
  core_->Count();
}

}  // namespace plimsoll::services
