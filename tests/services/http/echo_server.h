// A server of HTTP for tests, and events that it streams.
#ifndef PLIMSOLL_TESTS_SERVICES_HTTP_ECHO_SERVER_H_
#define PLIMSOLL_TESTS_SERVICES_HTTP_ECHO_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/http/http_server.h"
#include "tests/services/http/http_client.h"

namespace plimsoll::services {

// Says what it was asked.
inline void Echo(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  reply->Send({.body = absl::StrCat(request.method, " ", request.path, " ",
                                    request.body)});
}

struct EchoSetup {
  HttpLimits limits = {};
  HttpHandler handler = Echo;
  ServerTls tls = {};
};

// A server whose handler is Echo, if a test gives it no other.
struct EchoServer {
  EchoServer() : EchoServer(EchoSetup()) {}
  explicit EchoServer(EchoSetup setup)
      : server(*HttpServer::Start({.listen = "127.0.0.1:0",
                                   .allowed_hosts = {"models.lan"},
                                   .allowed_origins = {"https://chat.lan"},
                                   .tls = std::move(setup.tls),
                                   .limits = setup.limits},
                                  messages, std::move(setup.handler))) {}

  HttpClient Connect() const { return HttpClient(server->address()); }
  void AwaitConnections(size_t n) const {
    while (server->n_connections() != n) absl::SleepFor(absl::Milliseconds(1));
  }

  ByteBudget messages{64 << 20};
  std::unique_ptr<HttpServer> server;
};

// Events that a test adds.
class TestEvents final : public EventSource {
 public:
  Events Take() override {
    absl::MutexLock lock(&mu_);
    return std::exchange(events_, {});
  }
  void Add(const std::string& bytes, bool is_last) {
    absl::MutexLock lock(&mu_);
    events_.bytes += bytes;
    events_.is_last = is_last;
  }
  bool is_empty() {
    absl::MutexLock lock(&mu_);
    return events_.bytes.empty();
  }

 private:
  absl::Mutex mu_;
  Events events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_HTTP_ECHO_SERVER_H_
