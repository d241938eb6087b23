// A listener for Prometheus and for probes: GET /metrics, /health and /livez.
#ifndef PLIMSOLL_SERVICES_HTTP_METRICS_SERVER_H_
#define PLIMSOLL_SERVICES_HTTP_METRICS_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "services/http/http_message.h"
#include "services/http/http_server.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

inline constexpr char kMetricsPath[] = "/metrics";
inline constexpr char kHealthPath[] = "/health";
inline constexpr char kLivenessPath[] = "/livez";

// Returns the reply to a probe of liveness.
HttpResponse LivenessResponse(bool is_alive);

// Returns the reply to a scrape with this text.
HttpResponse MetricsResponse(std::string text);

// Thread-safe, except for construction and destruction.
class MetricsServer {
 public:
  static constexpr size_t kMaxConnections = 16;

  // All functions are called on the server's own thread.
  struct Sources {
    std::function<std::string()> metrics;  // the reply to a scrape
    std::function<bool()> is_ready;        // whether the process takes calls
    // Returns whether nothing in the process hangs; null: always true.
    std::function<bool()> is_alive = nullptr;
  };

  // Everything that `sources` use must outlive the server. Errors: those of
  // HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const std::string& listen, Sources sources);
  // Starts a server, or returns null if `listen` is empty.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> StartIfAny(
      const std::string& listen, Sources sources);
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // HOST:PORT with the actual port.
  const std::string& address() const { return server_->address(); }

 private:
  // The limit for bodies of requests, which are ignored.
  static constexpr int64_t kBodyBytes = 64 << 10;

  explicit MetricsServer(Sources sources) : sources_(std::move(sources)) {}
  void Handle(const HttpRequest& request, HttpReply& reply) const;

  const Sources sources_;
  ByteBudget messages_{kBodyBytes};
  // last: its thread uses everything above.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_METRICS_SERVER_H_
