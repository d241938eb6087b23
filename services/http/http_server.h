// A bounded server of HTTP/1.1: it reads requests, hands them to a handler and
// writes the replies, whole or as server-sent events.
#ifndef PLIMSOLL_SERVICES_HTTP_HTTP_SERVER_H_
#define PLIMSOLL_SERVICES_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/http/http_message.h"
#include "services/server/byte_budget.h"
#include "services/server/server.h"
#include "services/server/tls_files.h"

namespace plimsoll::services {

// The most bytes that OpenSSL and its buffers take for a connection with TLS.
inline constexpr size_t kTlsBytes = 128 << 10;

// The limits of a server. All connections together buffer at most
// kMaxBufferBytes for headers and for TLS.
struct HttpLimits {
  // Bytes of the request line and of all headers. Beyond: 431.
  size_t header_bytes = 15 << 10;
  // Bytes of the request's target, which is a path and a query. Beyond: 414.
  size_t target_bytes = 2 << 10;
  // Bytes of a request's body. Beyond: 413.
  size_t body_bytes = 2 << 20;
  // Connections at one time. Beyond: 503, and the connection is closed.
  size_t connections = 4'096;
  // Connections at one time of a server that speaks TLS. If one of them has not
  // ended its handshake, the one that began first is closed instead.
  size_t tls_connections = 448;
  // Requests of one connection, one after the other. After the last one it is
  // closed.
  int64_t requests_per_connection = 10'000;
  // Time for the handshake of TLS. Beyond: the connection is closed.
  absl::Duration handshake_time = absl::Seconds(10);
  // Time for a request line and its headers, from their first byte, and for the
  // first byte of a new connection. Beyond: the connection is closed. The same
  // holds for the times below, except notice_time.
  absl::Duration header_time = absl::Seconds(10);
  // Time for a request's body.
  absl::Duration body_time = absl::Seconds(30);
  // Time between the end of a reply and the first byte of the next request.
  absl::Duration idle_time = absl::Minutes(2);
  // Time in which a client must take a part of a reply: 64 KiB, or the rest if
  // that is less.
  absl::Duration reader_time = kReaderTimeout;
  // Time between two signs of life of a stream that waits for its model.
  absl::Duration notice_time = absl::Seconds(1);
  // Time that a client has to read the last reply before the connection is
  // closed, if more of the client's request comes.
  absl::Duration linger_time = absl::Seconds(1);
};
static_assert((HttpLimits().header_bytes + (1 << 10)) *
                      HttpLimits().connections <=
                  kMaxBufferBytes,
              "the plan counts what connections buffer");
static_assert((HttpLimits().header_bytes + (1 << 10) + kTlsBytes) *
                      HttpLimits().tls_connections <=
                  kMaxBufferBytes,
              "the plan counts what connections with TLS buffer");

struct HttpOptions {
  std::string listen = "127.0.0.1:0";           // HOST:PORT, port 0 = any
  std::vector<std::string> allowed_hosts = {};  // names, beside addresses
  bool allows_any_host = false;                 // accepts every Host header
  std::vector<std::string> allowed_origins = {};
  ServerTls tls = {};  // the files for TLS; off: plain HTTP
  HttpLimits limits = {};
};

// Requests on one connection are answered one after the other. A client that
// sends the next one before it has the reply gets this reply, and then the
// connection is closed. All reading and writing is done by one thread.
// Thread-safe, except for construction and destruction.
class HttpServer {
 public:
  // `messages` counts the bodies of requests. It must outlive the server, and
  // so must everything that `handler` uses.
  // Errors: kInvalidArgument if options.listen is not HOST:PORT, and those of
  // ReadServerTls; kUnavailable if it cannot listen there; kResourceExhausted
  // without another thread.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpOptions options,
                                                           ByteBudget& messages,
                                                           HttpHandler handler);
  // Closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address on which it listens, as HOST:PORT with the actual port.
  const std::string& address() const;

  // Accepts no new connections or requests, closes connections without a
  // request, and closes the others after their replies. Returns whether all
  // were closed within `timeout`.
  bool Drain(absl::Duration timeout);

  // The number of open connections.
  size_t n_connections() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_HTTP_SERVER_H_
