#include "services/worker/calls/tokenizer_service.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/tokenizer.grpc.pb.h"
#include "services/generation/message_bytes.h"
#include "services/generation/prompt.h"
#include "services/generation/tokenize.h"
#include "services/server/call.h"
#include "services/wire/to_proto.h"
#include "services/worker/calls/preparation.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

template <typename Response>
void AddIds(const std::vector<int32_t>& ids, Response& response) {
  response.mutable_ids()->Reserve(static_cast<int>(ids.size()));
  for (const int32_t id : ids) response.add_ids(ToUint32(id));
}

absl::StatusOr<v1::CountTokensResponse> CountTokens(
    const ServedModel& model, const v1::CountTokensRequest& request,
    StopCheck stop, ByteBudget::Share& held) {
  RETURN_IF_ERROR(held.Grow(WorkBytes(request)));
  if (request.input_case() == v1::CountTokensRequest::INPUT_NOT_SET) {
    return absl::InvalidArgumentError("input: text or chat is needed");
  }
  ASSIGN_OR_RETURN(const Prompt result,
                   request.has_chat()
                       ? FromChat(model, request.chat(), {.stop = stop})
                       : FromText(model, request.text(), {.stop = stop}));
  v1::CountTokensResponse response;
  response.set_n_tokens(ToUint32(static_cast<int64_t>(result.ids.size())));
  response.set_n_ctx(ToUint32(model.engine->n_ctx()));
  return response;
}

absl::StatusOr<v1::ApplyChatTemplateResponse> ApplyChatTemplate(
    const ServedModel& model, const v1::ApplyChatTemplateRequest& request,
    StopCheck stop, ByteBudget::Share& held) {
  RETURN_IF_ERROR(held.Grow(WorkBytes(request)));
  ASSIGN_OR_RETURN(const Prompt result,
                   FromChat(model, request.chat(), {.stop = stop}));
  RETURN_IF_ERROR(CheckReplyBytes(static_cast<int64_t>(result.text.size()) +
                                      WireBytes(result.ids) + kReplyFrameBytes,
                                  "shorten the conversation"));
  v1::ApplyChatTemplateResponse response;
  response.set_text(result.text);
  AddIds(result.ids, response);
  response.set_chat_format(result.chat_format);
  response.set_chat_format_reason(result.chat_format_reason);
  return response;
}

class TokenizerServiceImpl final
    : public v1::TokenizerService::CallbackService {
 public:
  TokenizerServiceImpl(ModelRegistry& registry, CallGate& gate, WorkPool& pool,
                       absl::Duration reader_timeout)
      : room_{registry, {gate, registry.messages(), reader_timeout}, pool} {}

  ServerUnaryReactor* Tokenize(
      CallbackServerContext* context, const v1::TokenizeRequest* request,
      v1::TokenizeResponse* response) noexcept override {
    return Answer(context, services::Tokenize, *request, *response);
  }

  ServerUnaryReactor* Detokenize(
      CallbackServerContext* context, const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) noexcept override {
    return Answer(context, services::Detokenize, *request, *response);
  }

  ServerUnaryReactor* CountTokens(
      CallbackServerContext* context, const v1::CountTokensRequest* request,
      v1::CountTokensResponse* response) noexcept override {
    return Answer(context, services::CountTokens, *request, *response);
  }

  ServerUnaryReactor* ApplyChatTemplate(
      CallbackServerContext* context,
      const v1::ApplyChatTemplateRequest* request,
      v1::ApplyChatTemplateResponse* response) noexcept override {
    return Answer(context, services::ApplyChatTemplate, *request, *response);
  }

 private:
  // gRPC keeps both messages until the call is done.
  template <typename Request, typename Response>
  ServerUnaryReactor* Answer(
      CallbackServerContext* context,
      absl::StatusOr<Response> (*answer)(const ServedModel&, const Request&,
                                         StopCheck, ByteBudget::Share&),
      const Request& request, Response& response) {
    return AnswerPrepared(context, room_, {request, response},
                          WorkFor(request,
                                  [answer, &request, &response](
                                      const ServedModel& model, StopCheck stop,
                                      ByteBudget::Share& held) -> absl::Status {
                                    ASSIGN_OR_RETURN(
                                        response,
                                        answer(model, request, stop, held));
                                    return absl::OkStatus();
                                  }));
  }

  const CallRoom room_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewTokenizerService(
    ModelRegistry& registry, CallGate& gate, WorkPool& pool,
    absl::Duration reader_timeout) {
  return std::make_unique<TokenizerServiceImpl>(registry, gate, pool,
                                                reader_timeout);
}

}  // namespace plimsoll::services
