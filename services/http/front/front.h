// The HTTP front: all paths and their replies, for models of this process or of
// workers.
#ifndef PLIMSOLL_SERVICES_HTTP_FRONT_FRONT_H_
#define PLIMSOLL_SERVICES_HTTP_FRONT_FRONT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/http/http_message.h"
#include "services/http/http_server.h"
#include "services/http/text_call.h"

namespace plimsoll::services {

// A path that a front answers.
struct FrontPath {
  // The path as OpenAPI writes it. A name in braces at its end stands for the
  // rest of a path, such as "/v1/models/{model}".
  absl::string_view path;
  absl::string_view methods;  // such as "GET, HEAD"
};

// Thread-safe, except for construction and destruction.
class Front {
 public:
  // Returns the text of /metrics. It is called on the server's thread.
  using MetricsSource = std::function<std::string(bool is_ready)>;
  // Says whether requests can be answered. It is called on any thread.
  using ReadySource = std::function<bool()>;

  // All members of `room`, and everything that `metrics` uses, must outlive it.
  // With a null `metrics` there is no /metrics. `is_ready` says whether the
  // front is ready. If `is_ready` is null, the front is not ready at first, and
  // SetReady changes that. Errors: those of HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<Front>> Start(
      HttpOptions options, const HttpRoom& room,
      MetricsSource metrics = nullptr, ReadySource is_ready = nullptr);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  // All paths that are answered, which /openapi.json describes.
  static std::vector<FrontPath> Paths();

  // HOST:PORT with the actual port.
  const std::string& address() const { return server_->address(); }

  // Sets the state that /health reports.
  void SetReady(bool is_ready) { is_ready_ = is_ready; }

  // Refuses new calls and waits up to `timeout` for the running ones; then
  // calls `abort`, which must end them, and closes all connections.
  void Drain(absl::Duration timeout, const std::function<void()>& abort);

 private:
  Front(const HttpRoom& room, MetricsSource metrics, ReadySource is_ready);

  // The handler of a path. `rest` is the part of the path for the name in
  // braces.
  using Answer = HttpResponse (Front::*)(const HttpRequest& request,
                                         absl::string_view rest) const;
  struct Route;
  // NOLINTNEXTLINE(readability-identifier-naming): a constant.
  static const Route kRoutes[];

  // The route of a path, or null if there is none. Sets `rest` to the part of
  // the path for the name in braces.
  static const Route* FindRoute(absl::string_view path,
                                absl::string_view& rest);

  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
  // The word for the state that /health reports.
  std::string State() const;
  HttpResponse Page(const HttpRequest& request, absl::string_view rest) const;
  HttpResponse Description(const HttpRequest& request,
                           absl::string_view rest) const;
  HttpResponse Health(const HttpRequest& request, absl::string_view rest) const;
  HttpResponse Liveness(const HttpRequest& request,
                        absl::string_view rest) const;
  HttpResponse Status(const HttpRequest& request, absl::string_view rest) const;
  HttpResponse Metrics(const HttpRequest& request,
                       absl::string_view rest) const;
  HttpResponse OneModel(const HttpRequest& request,
                        absl::string_view name) const;
  HttpResponse OneResponse(const HttpRequest& request,
                           absl::string_view id) const;

  const HttpRoom room_;
  const MetricsSource metrics_;
  const ReadySource ready_source_;
  const int64_t start_s_;  // Unix time
  std::atomic<bool> is_ready_ = false;
  // last: its thread uses everything above.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_FRONT_FRONT_H_
