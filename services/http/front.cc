#include "services/http/front.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/http/dialects/anthropic_reply.h"
#include "services/http/dialects/anthropic_request.h"
#include "services/http/dialects/ollama_models.h"
#include "services/http/dialects/ollama_reply.h"
#include "services/http/dialects/ollama_request.h"
#include "services/http/dialects/openai_reply.h"
#include "services/http/dialects/openai_request.h"
#include "services/http/dialects/responses_reply.h"
#include "services/http/dialects/responses_request.h"
#include "services/http/http_errors.h"
#include "services/http/http_models.h"
#include "services/http/json.h"
#include "services/http/metrics_server.h"
#include "services/http/page.h"
#include "services/http/server_status.h"
#include "services/http/token_calls.h"
#include "services/server/access/identity.h"
#include "services/server/call_guard.h"
#include "services/server/roles.h"

namespace plimsoll::services {
namespace {

// Calls that were aborted, and clients, have this long to end.
constexpr absl::Duration kEndGrace = absl::Seconds(1);

constexpr absl::string_view kModels = "/v1/models";
constexpr absl::string_view kStatus = "/plimsoll/status";
constexpr absl::string_view kResponses = "/v1/responses";

// A reader that needs nothing but the body.
template <absl::StatusOr<TextJob> (*kRead)(const Json& body)>
absl::StatusOr<TextJob> BodyOnly(const Json& body, ReadRoom& /*room*/) {
  return kRead(body);
}

constexpr TextDialect kChat = {BodyOnly<ReadChatCompletion>, NewChatFormat,
                               ErrorResponse};
constexpr TextDialect kCompletions = {BodyOnly<ReadCompletion>,
                                      NewCompletionFormat, ErrorResponse};
constexpr TextDialect kResponse = {.read = ReadResponse,
                                   .new_format = NewResponseFormat,
                                   .error = ErrorResponse,
                                   .asks_for_more = "previous_response_id"};
constexpr TextDialect kMessages = {BodyOnly<ReadMessages>, NewMessagesFormat,
                                   AnthropicError};

constexpr char kLines[] = "application/x-ndjson";
constexpr TextDialect kOllamaChat = {BodyOnly<ReadOllamaChat>,
                                     NewOllamaChatFormat, OllamaError, kLines};
constexpr TextDialect kOllamaGenerate = {
    BodyOnly<ReadOllamaGenerate>, NewOllamaGenerateFormat, OllamaError, kLines};

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

HttpResponse OneModel(const std::vector<ModelInfo>& models,
                      absl::string_view name, int64_t created_s) {
  for (const ModelInfo& model : models) {
    if (model.name == name) return {.body = Dump(ToJson(model, created_s))};
  }
  return ErrorResponse(404, "there is no model of this name");
}

using PostHandler = void (*)(const HttpRoom&, HttpRequest,
                             std::shared_ptr<HttpReply>);

template <const TextDialect& kDialect>
void AnswerText(const HttpRoom& room, HttpRequest request,
                std::shared_ptr<HttpReply> reply) {
  TextCall::Start(room, kDialect, std::move(request), std::move(reply));
}

// What POST does at a path; null if the path has no POST.
PostHandler PostAt(absl::string_view path) {
  if (path == "/v1/chat/completions") return AnswerText<kChat>;
  if (path == "/v1/completions") return AnswerText<kCompletions>;
  if (path == kResponses) return AnswerText<kResponse>;
  if (path == "/v1/messages") return AnswerText<kMessages>;
  if (path == "/v1/messages/count_tokens") return AnswerCountTokens;
  if (path == "/api/chat") return AnswerText<kOllamaChat>;
  if (path == "/api/generate") return AnswerText<kOllamaGenerate>;
  if (path == "/api/show") return AnswerOllamaShow;
  if (path == "/tokenize") return AnswerTokenize;
  if (path == "/detokenize") return AnswerDetokenize;
  return nullptr;
}

// What GET says of all models at a path; null if it says nothing of them.
using ModelLister = HttpResponse (*)(const std::vector<ModelInfo>& models,
                                     int64_t created_s);
ModelLister ListerAt(absl::string_view path) {
  if (path == kModels) return ListModels;
  if (path == "/api/tags") return ListOllamaModels;
  if (path == "/api/ps") return ListOllamaLoaded;
  if (path == "/api/version") return OllamaVersion;
  return nullptr;
}

// The id in the path of one response; "" if it is another path.
std::string ResponseId(absl::string_view path) {
  if (!absl::ConsumePrefix(&path, kResponses) ||
      !absl::ConsumePrefix(&path, "/") || absl::StrContains(path, '/')) {
    return "";
  }
  return std::string(path);
}

HttpResponse OneResponse(const HttpRoom& room, const HttpRequest& request,
                         const std::string& id) {
  const ResponseShelf shelf{room.responses, request.tenant};
  if (request.method == "DELETE") return DeletedResponse(shelf, id);
  if (request.method == "GET" || request.method == "HEAD") {
    return StoredResponse(shelf, id);
  }
  return WrongMethod("GET, HEAD, DELETE");
}

// Whether everybody may have it: health, and the files of the page.
bool IsOpen(absl::string_view path) {
  return path == kHealthPath || FindPageFile(path) != nullptr;
}

// Returns OK if the request may go on where callers need a token; its tenant is
// then the token's. Errors: kUnauthenticated; kPermissionDenied.
absl::Status CheckCaller(const CallGuard& guard, HttpRequest& request) {
  if (IsOpen(request.path)) return absl::OkStatus();
  const auto identity = guard.Identify(request.authorization, std::nullopt);
  if (!identity.has_value()) {
    return absl::UnauthenticatedError(
        request.authorization.empty()
            ? "this server wants a token: send it as the header "
              "Authorization: Bearer TOKEN"
            : "the token is not valid here");
  }
  // A response has what a user said.
  const bool is_read =
      PostAt(request.path) == nullptr && ResponseId(request.path).empty();
  if (identity->role < (is_read ? Role::kViewer : Role::kUser)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "a token of role ", RoleName(identity->role),
        " may not call this path, which takes role ", RoleName(Role::kUser)));
  }
  request.tenant = TenantOf(*identity, "");
  return absl::OkStatus();
}

HttpResponse RefusalOf(const absl::Status& status) {
  HttpResponse response = ErrorResponse(status);
  if (response.status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

}  // namespace

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

HttpResponse Front::Health() const {
  Json json;
  json["status"] = State();
  return {.status = json["status"] == "ok" ? 200 : 503, .body = Dump(json)};
}

HttpResponse Front::Status() const {
  HttpResponse response{.body = Dump(room_.models.Status(State()))};
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

HttpResponse Front::Metrics() const {
  return MetricsResponse(metrics_(State() == "ok"));
}

void Front::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  if (const auto guard = room_.gate.guard()) {
    const absl::Status status = CheckCaller(*guard, request);
    if (!status.ok()) return reply->Send(RefusalOf(status));
  }
  absl::string_view path = request.path;
  if (const PostHandler answer = PostAt(path)) {
    if (request.method != "POST") return reply->Send(WrongMethod("POST"));
    return answer(room_, std::move(request), std::move(reply));
  }
  if (const std::string id = ResponseId(path); !id.empty()) {
    return reply->Send(OneResponse(room_, request, id));
  }
  const bool is_model = absl::StartsWith(path, absl::StrCat(kModels, "/"));
  const ModelLister list = ListerAt(path);
  const PageFile* file = FindPageFile(path);
  const bool is_metrics = path == kMetricsPath && metrics_ != nullptr;
  if (path != kHealthPath && path != kStatus && !is_metrics &&
      list == nullptr && !is_model && file == nullptr) {
    return reply->Send(ErrorResponse(404, "there is nothing at this path"));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return reply->Send(WrongMethod("GET, HEAD"));
  }
  if (file != nullptr) {
    return reply->Send(PageResponse(*file, request.if_none_match));
  }
  if (path == kHealthPath) return reply->Send(Health());
  if (path == kStatus) return reply->Send(Status());
  if (is_metrics) return reply->Send(Metrics());
  const std::vector<ModelInfo> models = room_.models.List();
  if (list != nullptr) return reply->Send(list(models, start_s_));
  path.remove_prefix(kModels.size() + 1);
  reply->Send(OneModel(models, path, start_s_));
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
