#include "services/http/metrics_server.h"

#include <utility>

#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/http/http_errors.h"
#include "services/server/access/listen_address.h"

namespace plimsoll::services {

HttpResponse LivenessResponse(bool is_alive) {
  if (is_alive) return {.status = 200, .body = R"({"status":"alive"})"};
  return {.status = 503, .body = R"({"status":"hangs"})"};
}

HttpResponse MetricsResponse(std::string text) {
  HttpResponse response{
      .body = std::move(text),
      .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& listen, Sources sources) {
  ASSIGN_OR_RETURN(const ListenAddress address,
                   ParseListen(listen, "--metrics-listen"));
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(sources)));
  HttpOptions options{.listen = listen};
  // On loopback, a page of a browser could get at the numbers by a name of its
  // own. Elsewhere scrapers call this server by any name.
  options.allows_any_host = !CheckLoopback(address, "").ok();
  options.limits.connections = kMaxConnections;
  options.limits.body_bytes = kBodyBytes;
  ASSIGN_OR_RETURN(
      server->server_,
      HttpServer::Start(
          std::move(options), server->messages_,
          [raw = server.get()](const HttpRequest& request,
                               const std::shared_ptr<HttpReply>& reply) {
            raw->Handle(request, *reply);
          }));
  Log(LogLevel::kInfo, "metrics are served",
      {{"address", server->address()}, {"path", kMetricsPath}});
  return server;
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::StartIfAny(
    const std::string& listen, Sources sources) {
  if (listen.empty()) return nullptr;
  return Start(listen, std::move(sources));
}

void MetricsServer::Handle(const HttpRequest& request, HttpReply& reply) const {
  const bool is_health = request.path == kHealthPath;
  const bool is_liveness = request.path == kLivenessPath;
  if (!is_health && !is_liveness && request.path != kMetricsPath) {
    return reply.Send(
        ErrorResponse(404, "only /metrics, /health and /livez are here"));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return reply.Send(WrongMethod("GET, HEAD"));
  }
  if (is_liveness) {
    return reply.Send(
        LivenessResponse(sources_.is_alive == nullptr || sources_.is_alive()));
  }
  if (!is_health) return reply.Send(MetricsResponse(sources_.metrics()));
  if (sources_.is_ready()) {
    return reply.Send({.status = 200, .body = R"({"status":"ok"})"});
  }
  reply.Send({.status = 503, .body = R"({"status":"not ready"})"});
}

}  // namespace plimsoll::services
