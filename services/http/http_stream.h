// The stream that a connection of the HTTP server reads and writes. Only the
// server's own files include this one: Boost's headers take long to compile.
#ifndef PLIMSOLL_SERVICES_HTTP_HTTP_STREAM_H_
#define PLIMSOLL_SERVICES_HTTP_HTTP_STREAM_H_

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <utility>

namespace plimsoll::services {

// A socket, or TLS on a socket. The functions have the names that Boost
// requires of an AsyncReadStream and an AsyncWriteStream.
class HttpStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  // The stream is a bare socket if `tls` is null. `tls` need not outlive the
  // stream.
  HttpStream(boost::asio::ip::tcp::socket socket,
             boost::asio::ssl::context* tls)
      : tcp_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(tcp_, *tls);
    speaks_tls_ = tls != nullptr;
  }

  bool speaks_tls() const { return speaks_tls_; }
  // From now on, the bare socket is read and written.
  void UseBareSocket() { speaks_tls_ = false; }

  // The bare socket, whose time limits hold for TLS too.
  boost::beast::tcp_stream& tcp() { return tcp_; }
  executor_type get_executor() { return tcp_.get_executor(); }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (speaks_tls_) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (speaks_tls_) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }

  // It may be called only if the connection speaks TLS. `handler` takes an
  // error.
  template <typename Handler>
  void AsyncHandshake(Handler handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server,
                          std::move(handler));
  }
  // Sends the end of TLS to the client, and waits for the client's end.
  template <typename Handler>
  void AsyncEndTls(Handler handler) {
    tls_->async_shutdown(std::move(handler));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
  bool speaks_tls_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_HTTP_STREAM_H_
