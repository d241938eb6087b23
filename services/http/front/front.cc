#include "services/http/front/front.h"

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/http/dialects/anthropic_reply.h"
#include "services/http/dialects/anthropic_request.h"
#include "services/http/dialects/ollama_models.h"
#include "services/http/dialects/ollama_reply.h"
#include "services/http/dialects/ollama_request.h"
#include "services/http/dialects/openai_reply.h"
#include "services/http/dialects/openai_request.h"
#include "services/http/dialects/reply_deltas.h"
#include "services/http/dialects/responses_reply.h"
#include "services/http/dialects/responses_request.h"
#include "services/http/front/token_calls.h"
#include "services/http/http_errors.h"
#include "services/http/http_models.h"
#include "services/http/json.h"
#include "services/http/metrics_server.h"
#include "services/http/page.h"
#include "services/http/planner_queries.h"
#include "services/server/access/identity.h"
#include "services/server/access/roles.h"
#include "services/server/call_guard.h"

namespace plimsoll::services {
namespace {

// Calls that were aborted, and clients, have this long to end.
constexpr absl::Duration kEndGrace = absl::Seconds(1);

constexpr absl::string_view kRead = "GET, HEAD";
constexpr absl::string_view kPost = "POST";

// A reader that needs nothing but the body.
template <absl::StatusOr<TextJob> (*kRead)(const Json& body)>
absl::StatusOr<TextJob> BodyOnly(const Json& body, ReadRoom& /*room*/) {
  return kRead(body);
}

constexpr TextDialect kChat = {.read = BodyOnly<ReadChatCompletion>,
                               .new_format = NewChatFormat,
                               .error = ErrorResponse,
                               .append_wait = AppendLoadComment};
constexpr TextDialect kCompletions = {.read = BodyOnly<ReadCompletion>,
                                      .new_format = NewCompletionFormat,
                                      .error = ErrorResponse,
                                      .append_wait = AppendLoadComment};
constexpr TextDialect kResponse = {.read = ReadResponse,
                                   .new_format = NewResponseFormat,
                                   .error = ErrorResponse,
                                   .append_wait = AppendLoadComment,
                                   .asks_for_more = "previous_response_id"};
constexpr TextDialect kMessages = {.read = BodyOnly<ReadMessages>,
                                   .new_format = NewMessagesFormat,
                                   .error = AnthropicError,
                                   .append_wait = AppendPing};

// Its lines have no comments.
constexpr char kLines[] = "application/x-ndjson";
constexpr TextDialect kOllamaChat = {.read = BodyOnly<ReadOllamaChat>,
                                     .new_format = NewOllamaChatFormat,
                                     .error = OllamaError,
                                     .stream_type = kLines};
constexpr TextDialect kOllamaGenerate = {.read = BodyOnly<ReadOllamaGenerate>,
                                         .new_format = NewOllamaGenerateFormat,
                                         .error = OllamaError,
                                         .stream_type = kLines};

Json ToJson(const ModelInfo& model, int64_t created_s) {
  Json json;
  json["id"] = model.name;
  json["object"] = "model";
  json["created"] = created_s;
  json["owned_by"] = "plimsoll";
  json["state"] = StateWord(model.state);
  if (!model.ready.has_value()) return json;
  int64_t bytes = 0;
  for (const ModelPart& part : model.ready->parts) bytes += part.total_bytes;
  json["max_model_len"] = model.ready->n_ctx;
  json["architecture"] = model.ready->architecture;
  json["planned_bytes"] = bytes;
  return json;
}

HttpResponse ListModels(const std::vector<ModelInfo>& models,
                        int64_t created_s) {
  Json list;
  list["object"] = "list";
  list["data"] = Json::array();
  for (const ModelInfo& model : models) {
    list["data"].push_back(ToJson(model, created_s));
  }
  return {.body = Dump(list)};
}

// What GET says of all models.
using ModelLister = HttpResponse (*)(const std::vector<ModelInfo>& models,
                                     int64_t created_s);
using PostHandler = void (*)(const HttpRoom&, HttpRequest,
                             std::shared_ptr<HttpReply>);

template <const TextDialect& kDialect>
void AnswerText(const HttpRoom& room, HttpRequest request,
                std::shared_ptr<HttpReply> reply) {
  TextCall::Start(room, kDialect, {std::move(request), std::move(reply)});
}

HttpResponse NothingHere() {
  return ErrorResponse(404, "there is nothing at this path");
}

// Whether a list such as "GET, HEAD" has this method.
bool HasMethod(absl::string_view methods, absl::string_view method) {
  for (const absl::string_view one : absl::StrSplit(methods, ", ")) {
    if (one == method) return true;
  }
  return false;
}

HttpResponse RefusalOf(const absl::Status& status) {
  HttpResponse response = ErrorResponse(status);
  if (response.status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

// Returns OK if the request may go on where callers need a token of this role,
// or none if `least` is absent; its tenant is then the token's.
// Errors: kUnauthenticated; kPermissionDenied.
absl::Status CheckCaller(CallGuard& guard, std::optional<Role> least,
                         HttpRequest& request) {
  if (!least.has_value()) return absl::OkStatus();
  const auto identity = guard.Identify(request.authorization, std::nullopt);
  if (!identity.has_value()) {
    const bool has_none = request.authorization.empty();
    guard.OnRefused(has_none ? AuthFailure::kNoToken : AuthFailure::kWrongToken,
                    request.request_id);
    return absl::UnauthenticatedError(
        has_none ? "this server wants a token: send it as the header "
                   "Authorization: Bearer TOKEN"
                 : "the token is not valid here");
  }
  if (identity->role < *least) {
    guard.OnRefused(AuthFailure::kLowRole, request.request_id);
    return absl::PermissionDeniedError(absl::StrCat(
        "a token of role ", RoleName(identity->role),
        " may not call this path, which takes role ", RoleName(*least)));
  }
  request.tenant = TenantOf(*identity, "");
  return absl::OkStatus();
}

}  // namespace

// A path, and one of three ways to answer it.
struct Front::Route {
  absl::string_view path;  // as in FrontPath
  absl::string_view methods = kRead;
  // Where callers need a token; absent: not here.
  std::optional<Role> least = Role::kViewer;
  // Whether what its name in braces stands for may have a "/".
  bool has_slashes = false;
  Answer answer = nullptr;
  ModelLister list = nullptr;
  PostHandler post = nullptr;
};

const Front::Route Front::kRoutes[] = {
    {.path = "/", .least = std::nullopt, .answer = &Front::Page},
    {.path = "/page/{file}", .least = std::nullopt, .answer = &Front::Page},
    {.path = kDescriptionPath,
     .least = std::nullopt,
     .answer = &Front::Description},
    {.path = kHealthPath, .least = std::nullopt, .answer = &Front::Health},
    {.path = kLivenessPath, .least = std::nullopt, .answer = &Front::Liveness},
    {.path = kMetricsPath, .answer = &Front::Metrics},
    {.path = "/plimsoll/status", .answer = &Front::Status},
    {.path = "/v1/models", .list = ListModels},
    {.path = "/v1/models/{model}",
     .has_slashes = true,
     .answer = &Front::OneModel},
    {.path = "/v1/chat/completions",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerText<kChat>},
    {.path = "/v1/completions",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerText<kCompletions>},
    {.path = "/v1/responses",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerText<kResponse>},
    // It has what a user said.
    {.path = "/v1/responses/{response}",
     .methods = "GET, HEAD, DELETE",
     .least = Role::kUser,
     .answer = &Front::OneResponse},
    {.path = "/v1/messages",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerText<kMessages>},
    {.path = "/v1/messages/count_tokens",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerCountTokens},
    {.path = "/api/chat",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerText<kOllamaChat>},
    {.path = "/api/generate",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerText<kOllamaGenerate>},
    {.path = "/api/show",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerOllamaShow},
    {.path = "/api/tags", .list = ListOllamaModels},
    {.path = "/api/ps", .list = ListOllamaLoaded},
    {.path = "/api/version", .list = OllamaVersion},
    {.path = "/plimsoll.v1.PlannerService/{method}",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerPlannerQuery},
    {.path = "/tokenize",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerTokenize},
    {.path = "/detokenize",
     .methods = kPost,
     .least = Role::kUser,
     .post = AnswerDetokenize},
};

Front::Front(const HttpRoom& room, MetricsSource metrics, ReadySource is_ready)
    : room_(room),
      metrics_(std::move(metrics)),
      ready_source_(std::move(is_ready)),
      start_s_(absl::ToUnixSeconds(absl::Now())) {}

absl::StatusOr<std::unique_ptr<Front>> Front::Start(HttpOptions options,
                                                    const HttpRoom& room,
                                                    MetricsSource metrics,
                                                    ReadySource is_ready) {
  std::unique_ptr<Front> front(
      new Front(room, std::move(metrics), std::move(is_ready)));
  ASSIGN_OR_RETURN(
      front->server_,
      HttpServer::Start(std::move(options), room.models.messages(),
                        [raw = front.get()](HttpRequest request,
                                            std::shared_ptr<HttpReply> reply) {
                          raw->Handle(std::move(request), std::move(reply));
                        }));
  return front;
}

std::string Front::State() const {
  if (room_.gate.is_closed()) return "draining";
  const bool is_ready =
      ready_source_ != nullptr ? ready_source_() : is_ready_.load();
  return is_ready ? "ok" : "loading";
}

HttpResponse Front::Page(const HttpRequest& request,
                         absl::string_view /*rest*/) const {
  const PageFile* file = FindPageFile(request.path);
  if (file == nullptr) return NothingHere();
  return PageResponse(*file, request.if_none_match);
}

HttpResponse Front::Description(const HttpRequest& request,
                                absl::string_view /*rest*/) const {
  return PageResponse(DescriptionFile(), request.if_none_match);
}

HttpResponse Front::Health(const HttpRequest& /*request*/,
                           absl::string_view /*rest*/) const {
  Json json;
  json["status"] = State();
  return {.status = json["status"] == "ok" ? 200 : 503, .body = Dump(json)};
}

HttpResponse Front::Liveness(const HttpRequest& /*request*/,
                             absl::string_view /*rest*/) const {
  return LivenessResponse(room_.is_alive == nullptr || room_.is_alive());
}

HttpResponse Front::Status(const HttpRequest& /*request*/,
                           absl::string_view /*rest*/) const {
  HttpResponse response{.body = Dump(room_.models.Status(State()))};
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

HttpResponse Front::Metrics(const HttpRequest& /*request*/,
                            absl::string_view /*rest*/) const {
  if (metrics_ == nullptr) return NothingHere();
  return MetricsResponse(metrics_(State() == "ok"));
}

HttpResponse Front::OneModel(const HttpRequest& /*request*/,
                             absl::string_view name) const {
  for (const ModelInfo& model : room_.models.List()) {
    if (model.name == name) return {.body = Dump(ToJson(model, start_s_))};
  }
  return ErrorResponse(404, "there is no model of this name");
}

HttpResponse Front::OneResponse(const HttpRequest& request,
                                absl::string_view id) const {
  const ResponseShelf shelf{room_.responses, request.tenant};
  return request.method == "DELETE" ? DeletedResponse(shelf, std::string(id))
                                    : StoredResponse(shelf, std::string(id));
}

std::vector<FrontPath> Front::Paths() {
  std::vector<FrontPath> paths;
  paths.reserve(std::size(kRoutes));
  for (const Route& route : kRoutes) {
    paths.push_back({route.path, route.methods});
  }
  return paths;
}

const Front::Route* Front::FindRoute(absl::string_view path,
                                     absl::string_view& rest) {
  for (const Route& route : kRoutes) {
    const size_t brace = route.path.find('{');
    if (brace == absl::string_view::npos) {
      if (path == route.path) return &route;
      continue;
    }
    if (path.size() <= brace ||
        !absl::StartsWith(path, route.path.substr(0, brace))) {
      continue;
    }
    rest = path.substr(brace);
    if (route.has_slashes || !absl::StrContains(rest, '/')) return &route;
  }
  return nullptr;
}

void Front::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  absl::string_view rest;
  const Route* route = FindRoute(request.path, rest);
  if (const auto guard = room_.gate.guard()) {
    const absl::Status status = CheckCaller(
        *guard, route == nullptr ? Role::kViewer : route->least, request);
    if (!status.ok()) {
      return guard->Answer(status, request.authorization,
                           [reply, status] { reply->Send(RefusalOf(status)); });
    }
  }
  if (route == nullptr) return reply->Send(NothingHere());
  if (!HasMethod(route->methods, request.method)) {
    return reply->Send(WrongMethod(std::string(route->methods)));
  }
  if (route->post != nullptr) {
    return route->post(room_, std::move(request), std::move(reply));
  }
  if (route->list != nullptr) {
    return reply->Send(route->list(room_.models.List(), start_s_));
  }
  reply->Send((this->*route->answer)(request, rest));
}

void Front::Drain(absl::Duration timeout, const std::function<void()>& abort) {
  room_.gate.Close();
  if (!room_.gate.AwaitIdle(timeout)) {
    abort();
    room_.gate.AwaitIdle(kEndGrace);
  }
  server_->Drain(kEndGrace);
}

}  // namespace plimsoll::services
