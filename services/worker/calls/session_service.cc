#include "services/worker/calls/session_service.h"

#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "plimsoll/v1/session.grpc.pb.h"
#include "services/generation/call_errors.h"
#include "services/generation/generation.h"
#include "services/generation/open_session.h"
#include "services/server/call.h"
#include "services/wire/generation_from_proto.h"
#include "services/wire/generation_to_proto.h"
#include "services/worker/calls/claim.h"
#include "services/worker/calls/preparation.h"
#include "services/worker/calls/stream_call.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

absl::Status Get(ModelRegistry& registry, const worker::Claim& caller,
                 const v1::GetSessionRequest& request,
                 v1::GetSessionResponse& response) {
  ASSIGN_OR_RETURN(const ServedModel model, registry.Serve(request.model()));
  const auto info =
      model.engine->GetSession(request.session_id(), caller.tenant);
  if (!info.ok()) return SessionStatus(info.status());
  *response.mutable_session() = DescribeSession(model, *info);
  return absl::OkStatus();
}

absl::Status List(ModelRegistry& registry, const worker::Claim& caller,
                  const v1::ListSessionsRequest& request,
                  v1::ListSessionsResponse& response) {
  ASSIGN_OR_RETURN(const ServedModel model, registry.Serve(request.model()));
  for (const worker::SessionInfo& info :
       model.engine->Sessions(caller.tenant)) {
    *response.add_sessions() = DescribeSession(model, info);
  }
  return absl::OkStatus();
}

absl::Status Close(ModelRegistry& registry, const worker::Claim& caller,
                   const v1::CloseSessionRequest& request,
                   v1::CloseSessionResponse&) {
  ASSIGN_OR_RETURN(const ServedModel model, registry.Serve(request.model()));
  return SessionStatus(
      model.engine->CloseSession(request.session_id(), caller.tenant));
}

class SessionServiceImpl final : public v1::SessionService::CallbackService {
 public:
  SessionServiceImpl(ModelRegistry& registry, CallGate& gate, WorkPool& pool,
                     absl::Duration reader_timeout)
      : room_{registry, {gate, registry.messages(), reader_timeout}, pool} {}

  ServerUnaryReactor* OpenSession(
      CallbackServerContext* context, const v1::OpenSessionRequest* request,
      v1::OpenSessionResponse* response) noexcept override {
    // The system prompt is tokenised.
    return AnswerPrepared(
        context, room_, {*request, *response},
        WorkFor(*request,
                [this, context, request, response](
                    const ServedModel& model, StopCheck stop,
                    ByteBudget::Share& held) -> absl::Status {
                  ASSIGN_OR_RETURN(worker::Claim claim,
                                   ClaimOf(*context, room_.limits.gate));
                  ASSIGN_OR_RETURN(
                      *response->mutable_session(),
                      services::OpenSession(
                          model, {std::move(claim), "", held, stop}, *request));
                  return absl::OkStatus();
                }));
  }

  grpc::ServerWriteReactor<v1::ChatResponse>* Chat(
      CallbackServerContext* context,
      const v1::ChatRequest* request) noexcept override {
    return ChatStream::Start(*context, room_, *request);
  }

  ServerUnaryReactor* GetSession(
      CallbackServerContext* context, const v1::GetSessionRequest* request,
      v1::GetSessionResponse* response) noexcept override {
    return AnswerCaller(context, Get, *request, *response);
  }

  ServerUnaryReactor* ListSessions(
      CallbackServerContext* context, const v1::ListSessionsRequest* request,
      v1::ListSessionsResponse* response) noexcept override {
    return AnswerCaller(context, List, *request, *response);
  }

  ServerUnaryReactor* CloseSession(
      CallbackServerContext* context, const v1::CloseSessionRequest* request,
      v1::CloseSessionResponse* response) noexcept override {
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
        context, room_.limits, {request, response}, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(const worker::Claim claim,
                           ClaimOf(*context, room_.limits.gate));
          return answer(room_.registry, claim, request, response);
        });
  }

  const CallRoom room_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewSessionService(
    ModelRegistry& registry, CallGate& gate, WorkPool& pool,
    absl::Duration reader_timeout) {
  return std::make_unique<SessionServiceImpl>(registry, gate, pool,
                                              reader_timeout);
}

}  // namespace plimsoll::services
