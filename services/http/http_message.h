// Requests and replies of HTTP as values, without a library of sockets.
#ifndef PLIMSOLL_SERVICES_HTTP_HTTP_MESSAGE_H_
#define PLIMSOLL_SERVICES_HTTP_HTTP_MESSAGE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/server/byte_budget.h"
#include "services/tracing/trace_context.h"

namespace plimsoll::services {

// A whole request that has passed the server's limits and its checks.
struct HttpRequest {
  std::string method;  // upper-case, such as "POST"
  std::string path;    // without the query, as it was sent
  std::string body;
  std::string if_none_match;  // the header of this name
  // The token as "Bearer TOKEN", even if the client sent it as x-api-key.
  std::string authorization = "";
  std::string session = "";  // the header X-Plimsoll-Session
  std::string tenant = "";   // the tenant of the token, if there is a token
  std::string peer;          // as PeerOf names it
  std::string request_id;    // the client's x-request-id, or a new one
  std::optional<TraceContext> trace = {};  // the client's trace
  // The memory of the body. The code that answers may grow it.
  ByteBudget::Share held = {};
};

// A reply that is sent as a whole.
struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Memory that is given back after the reply is sent.
  ByteBudget::Share held = {};
};

// The source of the events of a streamed reply.
class EventSource {
 public:
  struct Events {
    std::string bytes;     // whole events; empty if there is nothing now
    bool is_last = false;  // nothing follows
  };

  virtual ~EventSource() = default;
  // Takes the events that are ready. It is called on the server's thread, after
  // each HttpReply::Wake() and whenever earlier events were sent, but never
  // while events are being sent. So no events are taken for a client that does
  // not read. Take must not block.
  virtual Events Take() = 0;
  // The media type of the stream.
  virtual const char* content_type() const { return "text/event-stream"; }
};

// The reply to one request. Either Send, Compose or Stream is called, once.
// Thread-safe; it may outlive the server.
class HttpReply {
 public:
  virtual ~HttpReply() = default;

  // Sends a whole reply.
  virtual void Send(HttpResponse response) = 0;
  // Sends what `compose` returns. It runs on the server's thread, so it must be
  // quick.
  virtual void Compose(std::function<HttpResponse()> compose) = 0;
  // Begins a stream of events, with status 200.
  virtual void Stream(std::shared_ptr<EventSource> source) = 0;
  // Tells that the source has more events.
  virtual void Wake() = 0;
  // Calls `again` on the server's thread each HttpLimits::notice_time, until it
  // returns false or the reply has ended. Repeat is called at most once for a
  // reply.
  virtual void Repeat(std::function<bool()> again) = 0;
  // Calls `told` once if the client goes away, or does not read, before the
  // reply has ended. If this has happened already, `told` is called at once.
  // `told` must not block.
  virtual void OnGone(std::function<void()> told) = 0;
};

// A request with the reply that answers it.
struct HttpExchange {
  HttpRequest request;
  std::shared_ptr<HttpReply> reply;
};

// Answers a request by its reply, then or later. It is called on the server's
// thread, so it must not block or compute for long.
using HttpHandler =
    std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_HTTP_MESSAGE_H_
