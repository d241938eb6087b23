// The certificates of the HTTP server. Only the server's own files include this
// one: Boost's headers take long to compile.
#ifndef PLIMSOLL_SERVICES_HTTP_HTTP_TLS_H_
#define PLIMSOLL_SERVICES_HTTP_HTTP_TLS_H_

#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/host/poll_timer.h"
#include "services/server/tls_files.h"

namespace plimsoll::services {

// The most bytes of certificates that a client may show.
inline constexpr size_t kMaxClientChainBytes = 32 << 10;

// Used by the server's thread only.
class HttpTls {
 public:
  // `files` has a certificate. Errors: those of ReadServerTls; kInvalidArgument
  // also if OpenSSL accepts less of a file than ReadServerTls.
  static absl::StatusOr<std::unique_ptr<HttpTls>> Open(
      ServerTls files, std::function<absl::Time()> clock);

  // Returns the context for a new connection. It is valid until the next call;
  // connections keep the parts that they need. If the files have changed, a new
  // context is made from them. If the files are bad, the old context stays and
  // the log says so.
  boost::asio::ssl::context& Current();

 private:
  HttpTls(ServerTls files, std::function<absl::Time()> clock)
      : files_(std::move(files)), clock_(std::move(clock)), timer_(clock_()) {}

  absl::Status Read();

  const ServerTls files_;
  const std::function<absl::Time()> clock_;
  PollTimer timer_;
  ServerPem pem_;  // the contents that made `context_`
  std::unique_ptr<boost::asio::ssl::context> context_;
  absl::Status last_;  // result of the last reading; the log says it once
};

// Whether a handshake failed because the client spoke HTTP without TLS.
bool IsPlainHttp(const boost::system::error_code& error);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_HTTP_TLS_H_
