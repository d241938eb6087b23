// SessionService on the wire: sessions are an engine's, of the caller's tenant.
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "plimsoll/v1/session.grpc.pb.h"
#include "services/server/call.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"
#include "services/worker/calls/claim.h"
#include "services/worker/calls/generation.h"
#include "services/worker/calls/preparation.h"
#include "services/worker/calls/prompt.h"
#include "services/worker/calls/services.h"
#include "services/worker/calls/stream_call.h"
#include "services/worker/models/message_bytes.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

v1::Session Describe(const LoadedModel& model,
                     const worker::SessionInfo& info) {
  v1::Session message = ToProto(info);
  message.set_model(model.name);
  return message;
}

absl::Status Open(ModelRegistry& registry, const worker::Claim& caller,
                  const v1::OpenSessionRequest& request,
                  ByteBudget::Share& held, v1::OpenSessionResponse& response,
                  StopCheck stop) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  RETURN_IF_ERROR(held.Grow(WorkBytes(request)));
  ASSIGN_OR_RETURN(
      const worker::ChatFormatChoice choice,
      ChooseFormat(*model, request.has_chat_format() ? &request.chat_format()
                                                     : nullptr));
  // The system message stays in the context.
  const worker::EncodeLimits limits = {.max_tokens = model->engine->n_ctx(),
                                       .stop = stop};
  auto options =
      FromProto(request, choice.format, model->engine->tokenizer(), limits);
  if (!options.ok()) return EncodeStatus(options.status(), limits);
  options->owner = caller.tenant;
  options->peer = caller.peer;
  const auto info = model->engine->OpenSession(*std::move(options));
  if (!info.ok()) return SessionStatus(info.status());
  *response.mutable_session() = Describe(*model, *info);
  return absl::OkStatus();
}

absl::Status Get(ModelRegistry& registry, const worker::Claim& caller,
                 const v1::GetSessionRequest& request,
                 v1::GetSessionResponse& response) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  const auto info =
      model->engine->GetSession(request.session_id(), caller.tenant);
  if (!info.ok()) return SessionStatus(info.status());
  *response.mutable_session() = Describe(*model, *info);
  return absl::OkStatus();
}

absl::Status List(ModelRegistry& registry, const worker::Claim& caller,
                  const v1::ListSessionsRequest& request,
                  v1::ListSessionsResponse& response) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  for (const worker::SessionInfo& info :
       model->engine->Sessions(caller.tenant)) {
    *response.add_sessions() = Describe(*model, info);
  }
  return absl::OkStatus();
}

absl::Status Close(ModelRegistry& registry, const worker::Claim& caller,
                   const v1::CloseSessionRequest& request,
                   v1::CloseSessionResponse&) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  return SessionStatus(
      model->engine->CloseSession(request.session_id(), caller.tenant));
}

class SessionServiceImpl final : public v1::SessionService::CallbackService {
 public:
  SessionServiceImpl(ModelRegistry& registry, CallGate& gate, WorkPool& pool,
                     absl::Duration reader_timeout)
      : registry_(registry),
        limits_{gate, registry.messages(), reader_timeout},
        pool_(pool) {}

  ServerUnaryReactor* OpenSession(CallbackServerContext* context,
                                  const v1::OpenSessionRequest* request,
                                  v1::OpenSessionResponse* response) override {
    // The system prompt is tokenised.
    return AnswerPrepared(
        context, limits_, pool_, *request, *response,
        [this, context, request, response](
            StopCheck stop, ByteBudget::Share& held) -> absl::Status {
          ASSIGN_OR_RETURN(const worker::Claim claim, ClaimOf(*context));
          return Open(registry_, claim, *request, held, *response, stop);
        });
  }

  grpc::ServerWriteReactor<v1::ChatResponse>* Chat(
      CallbackServerContext* context, const v1::ChatRequest* request) override {
    return ChatStream::Start(*context, registry_, limits_, pool_, *request);
  }

  ServerUnaryReactor* GetSession(CallbackServerContext* context,
                                 const v1::GetSessionRequest* request,
                                 v1::GetSessionResponse* response) override {
    return AnswerCaller(context, Get, *request, *response);
  }

  ServerUnaryReactor* ListSessions(
      CallbackServerContext* context, const v1::ListSessionsRequest* request,
      v1::ListSessionsResponse* response) override {
    return AnswerCaller(context, List, *request, *response);
  }

  ServerUnaryReactor* CloseSession(
      CallbackServerContext* context, const v1::CloseSessionRequest* request,
      v1::CloseSessionResponse* response) override {
    return AnswerCaller(context, Close, *request, *response);
  }

 private:
  // Answers with `answer`, which is told who calls.
  template <typename Request, typename Response>
  ServerUnaryReactor* AnswerCaller(CallbackServerContext* context,
                                   absl::Status (*answer)(ModelRegistry&,
                                                          const worker::Claim&,
                                                          const Request&,
                                                          Response&),
                                   const Request& request, Response& response) {
    return AnswerUnary(
        context, limits_, request, response, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(const worker::Claim claim, ClaimOf(*context));
          return answer(registry_, claim, request, response);
        });
  }

  ModelRegistry& registry_;
  const CallLimits limits_;
  WorkPool& pool_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewSessionService(
    ModelRegistry& registry, CallGate& gate, WorkPool& pool,
    absl::Duration reader_timeout) {
  return std::make_unique<SessionServiceImpl>(registry, gate, pool,
                                              reader_timeout);
}

}  // namespace plimsoll::services
