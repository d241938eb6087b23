#include "services/http/http_server.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"
#include "services/http/http_connection.h"
#include "services/http/http_errors.h"
#include "services/http/http_tls.h"
#include "services/http/reply_bytes.h"
#include "services/server/access/listen_address.h"

namespace plimsoll::services {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Pause after the system refused another socket.
constexpr std::chrono::milliseconds kAcceptPause(100);

}  // namespace

// Listens, and owns the thread.
class HttpServer::Impl {
 public:
  explicit Impl(std::shared_ptr<ServerCore> core)
      : core_(std::move(core)),
        acceptor_(*core_->context),
        pause_(*core_->context),
        guard_(core_->context->get_executor()) {}

  // NOLINTNEXTLINE(bugprone-exception-escape): without memory it ends.
  ~Impl() {
    asio::post(*core_->context, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      CloseAll();
      guard_.reset();
      core_->context->stop();
    });
    thread_.Join();
    // What still waits keeps calls and, by them, the context.
    core_->context->restart();
    core_->context->poll();
  }

  absl::Status Listen() {
    ASSIGN_OR_RETURN(const ListenAddress listen,
                     ParseListen(core_->options.listen));
    if (core_->options.tls.is_on()) {
      ASSIGN_OR_RETURN(core_->tls,
                       HttpTls::Open(core_->options.tls, absl::Now));
    }
    error_code error;
    tcp::resolver resolver(*core_->context);
    const auto found = resolver.resolve(listen.host, listen.port,
                                        tcp::resolver::passive, error);
    if (!error) Bind(found.begin()->endpoint(), error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", core_->options.listen, ": ", error.message()));
    }
    const int port = acceptor_.local_endpoint(error).port();
    address_ = JoinListen(listen.host, port);
    Accept();
    ASSIGN_OR_RETURN(thread_, Background::Start([context = core_->context] {
                       context->run();
                     }));
    return absl::OkStatus();
  }

  bool Drain(absl::Duration timeout) {
    asio::post(*core_->context, [this] {
      core_->is_draining = true;
      error_code ignored;
      acceptor_.close(ignored);
      const auto connections = core_->connections;
      for (const auto& [key, connection] : connections) connection->Drain();
    });
    const auto is_empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu) {
      return core_->n_connections == 0;
    };
    SteadyMutexLock lock(&core_->mu);
    return core_->mu.AwaitFor(absl::Condition(&is_empty), timeout);
  }

  size_t n_connections() const {
    SteadyMutexLock lock(&core_->mu);
    return core_->n_connections;
  }
  const std::string& address() const { return address_; }

 private:
  void Bind(const tcp::endpoint& endpoint, error_code& error) {
    acceptor_.open(endpoint.protocol(), error);
    if (error) return;
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::socket::max_listen_connections, error);
  }

  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return Pause();
      if (MakeRoom()) {
        auto connection = std::make_shared<HttpConnection>(
            core_, std::move(socket),
            core_->tls == nullptr ? nullptr : &core_->tls->Current());
        core_->connections[connection.get()] = connection;
        core_->Count();
        connection->Start();
      } else {
        TurnAway(socket);
      }
      Accept();
    });
  }

  // Returns whether there may be another connection. Handshakes that never end
  // keep nobody out: the oldest one gives way.
  bool MakeRoom() {
    const HttpLimits& limits = core_->options.limits;
    const size_t n_most =
        core_->tls == nullptr ? limits.connections : limits.tls_connections;
    if (core_->connections.size() < n_most) return true;
    if (core_->handshakes.empty()) return false;
    core_->handshakes.front()->Close();
    return true;
  }

  // The system has no socket left.
  void Pause() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const error_code& error) {
      if (!error && acceptor_.is_open()) Accept();
    });
  }

  // Sends as much of a refusal as the socket takes at once. Within TLS there is
  // none: it would take a handshake.
  void TurnAway(tcp::socket& socket) const {
    if (core_->tls != nullptr) return;
    const HttpResponse refusal =
        ErrorResponse(503, "there are as many connections as there may be");
    const std::string text = absl::StrCat(
        HeadBytes(refusal.status, refusal.content_type,
                  absl::StrCat("Content-Length: ", refusal.body.size()),
                  /*keeps_alive=*/false),
        "Retry-After: 1\r\n\r\n", refusal.body);
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.send(asio::buffer(text), 0, ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  void CloseAll() {
    const auto connections = core_->connections;
    for (const auto& [key, connection] : connections) connection->Close();
  }

  const std::shared_ptr<ServerCore> core_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::string address_;
  Background thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    HttpOptions options, ByteBudget& messages, HttpHandler handler) {
  auto impl = std::make_unique<Impl>(std::make_shared<ServerCore>(
      std::move(options), messages, std::move(handler)));
  RETURN_IF_ERROR(impl->Listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

const std::string& HttpServer::address() const { return impl_->address(); }
bool HttpServer::Drain(absl::Duration timeout) { return impl_->Drain(timeout); }
size_t HttpServer::n_connections() const { return impl_->n_connections(); }

}  // namespace plimsoll::services
