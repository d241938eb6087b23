#include "services/gateway/remote_models.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <utility>

#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "base/sync/steady_notification.h"
#include "plimsoll/v1/tokenizer.grpc.pb.h"
#include "services/gateway/worker_answers.h"
#include "services/generation/message_bytes.h"
#include "services/wire/broken_connection.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using Tokenizer = v1::TokenizerService::Stub;

Json ToJson(const ModelInfo& info) {
  Json json;
  json["id"] = info.name;
  json["state"] = StateWord(info.state);
  if (!info.last_error.empty()) json["error"] = info.last_error;
  json["parts"] = Json::array();
  if (!info.ready.has_value()) return json;
  json["architecture"] = info.ready->architecture;
  json["n_ctx"] = info.ready->n_ctx;
  json["n_ctx_train"] = info.ready->n_ctx_train;
  json["n_slots"] = info.ready->load.n_slots;
  json["running"] = info.ready->load.running;
  json["waiting"] = info.ready->load.waiting;
  json["generated_tokens"] = info.ready->load.generated_tokens;
  return json;
}

Json ToJson(const std::string& id, const WorkerBook::Worker& worker) {
  Json json;
  json["id"] = id;
  json["ready"] = worker.facts.is_ready;
  json["models"] = worker.facts.loaded;
  json["in_flight"] = worker.in_flight;
  json["in_flight_bytes"] = worker.in_flight_bytes;
  return json;
}

std::vector<int32_t> IdsOf(
    const google::protobuf::RepeatedField<uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

int64_t ContextOf(const ModelInfo& model) {
  return model.ready.has_value() ? model.ready->n_ctx : 0;
}

}  // namespace

Json RemoteModels::Status(const std::string& state) {
  Json status;
  status["state"] = state;
  status["devices"] = Json::array();
  status["models"] = Json::array();
  for (const ModelInfo& info : List()) status["models"].push_back(ToJson(info));
  status["workers"] = Json::array();
  const WorkerBook book = remote_.workers.Book();
  for (const auto& [id, worker] : book.workers()) {
    status["workers"].push_back(ToJson(id, worker));
  }
  return status;
}

std::shared_ptr<TextCall> RemoteModels::NewTextCall(const HttpRoom& room,
                                                    const TextDialect& dialect,
                                                    HttpExchange exchange) {
  auto call = std::make_shared<RemoteTextCall>(remote_, room, dialect,
                                               std::move(exchange));
  remote_.calls.Add(call.get());
  return call;
}

template <typename Response, typename Request, typename Method>
absl::StatusOr<Response> RemoteModels::Ask(const ModelInfo& model,
                                           Request request,
                                           const TokenCaller& caller,
                                           Method method) {
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  request.set_model(model.name);
  WorkerWish wish;
  wish.model = model.name;
  wish.bytes = static_cast<int64_t>(request.ByteSizeLong());
  while (true) {
    ASSIGN_OR_RETURN(const auto place, remote_.workers.Enter(wish));
    wish.tried.insert(place->link().id());
    grpc::ClientContext context;
    AddCaller(caller.request, context);
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(kTokenTime));
    const auto stub = v1::TokenizerService::NewStub(place->link().channel());
    Response response;
    grpc::Status status;
    SteadyNotification done;
    method(*stub, context, request, response, [&](const grpc::Status& ended) {
      status = ended;
      done.Notify();
    });
    RETURN_IF_ERROR(AwaitAnswer(done, context, caller.stop));
    if (PLIMSOLL_FAULT("gateway.answer")) status = BrokenConnection();
    place->End(IsGone(status) ? WorkerEnd::kGone : WorkerEnd::kAnswered);
    if (status.ok()) return response;
    if (!MayDoBetter(status) ||
        wish.tried.size() == static_cast<size_t>(kMaxTries)) {
      return StatusOfAnswer(status);
    }
    ++remote_.counts.n_retries;
  }
}

absl::StatusOr<TokenAnswer> RemoteModels::Tokenize(
    const v1::TokenizeRequest& request, const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const ModelInfo model,
                   remote_.workers.FindModel(request.model()));
  ASSIGN_OR_RETURN(
      const auto response,
      Ask<v1::TokenizeResponse>(model, request, caller,
                                [](Tokenizer& stub, auto& context, auto& asked,
                                   auto& into, auto done) {
                                  stub.async()->Tokenize(
                                      &context, &asked, &into, std::move(done));
                                }));
  return TokenAnswer{.ids = IdsOf(response.ids()), .n_ctx = ContextOf(model)};
}

absl::StatusOr<TokenAnswer> RemoteModels::Render(
    const v1::ApplyChatTemplateRequest& request, const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const ModelInfo model,
                   remote_.workers.FindModel(request.model()));
  ASSIGN_OR_RETURN(const auto response,
                   Ask<v1::ApplyChatTemplateResponse>(
                       model, request, caller,
                       [](Tokenizer& stub, auto& context, auto& asked,
                          auto& into, auto done) {
                         stub.async()->ApplyChatTemplate(
                             &context, &asked, &into, std::move(done));
                       }));
  return TokenAnswer{.ids = IdsOf(response.ids()), .n_ctx = ContextOf(model)};
}

absl::StatusOr<TokenAnswer> RemoteModels::Detokenize(
    const v1::DetokenizeRequest& request, const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const ModelInfo model,
                   remote_.workers.FindModel(request.model()));
  ASSIGN_OR_RETURN(auto response, Ask<v1::DetokenizeResponse>(
                                      model, request, caller,
                                      [](Tokenizer& stub, auto& context,
                                         auto& asked, auto& into, auto done) {
                                        stub.async()->Detokenize(
                                            &context, &asked, &into,
                                            std::move(done));
                                      }));
  return TokenAnswer{.text = std::move(*response.mutable_text()),
                     .n_ctx = ContextOf(model)};
}

}  // namespace plimsoll::services
