// One connection of the HTTP server, and the replies on it. Only the server's
// own files include this one: Boost's headers take long to compile.
#ifndef PLIMSOLL_SERVICES_HTTP_HTTP_CONNECTION_H_
#define PLIMSOLL_SERVICES_HTTP_HTTP_CONNECTION_H_

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/sync/steady_mutex.h"
#include "services/http/http_message.h"
#include "services/http/http_server.h"
#include "services/http/http_stream.h"
#include "services/http/http_tls.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

class HttpConnection;

// The data that the server's parts share. Only the server's thread uses it,
// except for `n_connections`.
struct ServerCore {
  ServerCore(HttpOptions given_options, ByteBudget& given_messages,
             HttpHandler given_handler)
      : options(std::move(given_options)),
        messages(given_messages),
        handler(std::move(given_handler)) {}

  const HttpOptions options;
  ByteBudget& messages;
  const HttpHandler handler;
  // Replies use the context too, and may outlive the server.
  const std::shared_ptr<boost::asio::io_context> context =
      std::make_shared<boost::asio::io_context>(1);
  std::unique_ptr<HttpTls> tls;  // null: the server speaks plain HTTP
  bool is_draining = false;
  std::map<HttpConnection*, std::shared_ptr<HttpConnection>> connections;
  // Running handshakes, the oldest first.
  std::list<HttpConnection*> handshakes;

  void Count() ABSL_LOCKS_EXCLUDED(mu) {
    SteadyMutexLock lock(&mu);
    n_connections = connections.size();
  }

  SteadyMutex mu;
  size_t n_connections ABSL_GUARDED_BY(mu) = 0;
};

// Passes a handler's reply from any thread to the connection's thread.
class SocketReply final : public HttpReply,
                          public std::enable_shared_from_this<SocketReply> {
 public:
  SocketReply(std::shared_ptr<boost::asio::io_context> context,
              std::weak_ptr<HttpConnection> connection)
      : context_(std::move(context)), connection_(std::move(connection)) {}

  void Send(HttpResponse response) override;
  void Compose(std::function<HttpResponse()> compose) override;
  void Stream(std::shared_ptr<EventSource> source) override;
  void Wake() override;
  void Repeat(std::function<bool()> again) override;
  void OnGone(std::function<void()> told) override ABSL_LOCKS_EXCLUDED(mu_);

  // Notes that the reply has ended, or that its client `is_gone`. Must be
  // called on the connection's thread.
  void End(bool is_gone) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Calls `work` on the connection's thread if this is still the connection's
  // reply.
  template <typename Work>
  void Post(Work work);

  const std::shared_ptr<boost::asio::io_context> context_;
  const std::weak_ptr<HttpConnection> connection_;
  std::atomic<bool> is_woken_ = false;
  absl::Mutex mu_;
  bool is_ended_ ABSL_GUARDED_BY(mu_) = false;
  bool is_gone_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> told_ ABSL_GUARDED_BY(mu_);
};

// One connection. A pending operation of its socket keeps it alive. All its
// methods run on the server's thread.
class HttpConnection final
    : public std::enable_shared_from_this<HttpConnection> {
 public:
  // If `tls` is null, the connection is plain HTTP.
  HttpConnection(std::shared_ptr<ServerCore> core,
                 boost::asio::ip::tcp::socket socket,
                 boost::asio::ssl::context* tls)
      : core_(std::move(core)),
        limits_(core_->options.limits),
        stream_(std::move(socket), tls) {}

  void Start();
  // Closes the connection, now or after the reply to the present request.
  void Drain();
  void Close();

  bool Owns(const SocketReply* reply) const { return reply_.get() == reply; }
  void SendWhole(HttpResponse response);
  void BeginStream(std::shared_ptr<EventSource> source);
  void Pump();
  void Repeat(std::function<bool()> again);

 private:
  using Parser =
      boost::beast::http::request_parser<boost::beast::http::string_body>;

  template <typename Method>
  auto Bind(Method method) {
    return [self = shared_from_this(), method](
               const boost::system::error_code& error, size_t bytes) {
      (self.get()->*method)(error, bytes);
    };
  }

  void OnHandshake(const boost::system::error_code& error);
  void AwaitRequest();
  void OnFirstBytes(const boost::system::error_code& error, size_t bytes);
  void OnHeader(const boost::system::error_code& error, size_t bytes);
  void OnContinueSent(const boost::system::error_code& error, size_t bytes);
  void ReadBody();
  void OnBody(const boost::system::error_code& error, size_t bytes);
  // Takes the memory of the body, and checks the headers.
  absl::Status Admit();
  std::string Header(boost::beast::http::field name) const {
    const auto value = parser_->get()[name];
    return std::string(value.data(), value.size());
  }
  void Dispatch();
  // Notices that the client goes away while its request is handled.
  void WatchPeer();
  void OnWatched(const boost::system::error_code& error, size_t bytes);
  void Refuse(HttpResponse response);
  void FailToRead(const boost::system::error_code& error);
  // The bytes to write next, from `out_` and from the body behind it.
  std::array<boost::asio::const_buffer, 2> NextBytes() const;
  void Write();
  void OnWritten(const boost::system::error_code& error, size_t bytes);
  void EndReply();
  void Gone();
  bool StaysOpen() const { return keeps_alive_ && !core_->is_draining; }
  void Linger();
  void DropRest();
  void OnLingered(const boost::system::error_code& error, size_t bytes);

  const std::shared_ptr<ServerCore> core_;
  const HttpLimits& limits_;
  HttpStream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string peer_;
  std::string request_id_;
  ByteBudget::Share held_;  // the memory of the request being read
  int64_t n_requests_ = 0;
  size_t n_lingered_ = 0;
  bool keeps_alive_ = true;
  bool is_head_ = false;      // the reply has no body
  bool is_watching_ = false;  // a read waits while a request is handled
  bool is_closed_ = false;

  std::shared_ptr<SocketReply> reply_;   // while a request is handled
  std::shared_ptr<EventSource> source_;  // while a stream runs
  bool is_last_ = false;                 // nothing follows the bytes of `out_`
  bool is_writing_ = false;
  std::string out_;       // bytes to write, before the body of `response_`
  size_t n_written_ = 0;  // bytes of out_ and the body that were sent
  std::optional<boost::asio::steady_timer> timer_;  // while Repeat is active
  // A whole reply. It keeps its memory until it is sent.
  HttpResponse response_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_HTTP_CONNECTION_H_
