// TokenizerService on the wire: answered at once by a loaded model's tables.
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/tokenizer.grpc.pb.h"
#include "services/common/call.h"
#include "services/common/to_proto.h"
#include "services/worker/prompt.h"
#include "services/worker/services.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Ids of one Detokenize call.
constexpr int kMaxDetokenizeIds = 1 << 20;

template <typename Response>
void AddIds(const std::vector<int32_t>& ids, Response& response) {
  for (const int32_t id : ids) response.add_ids(ToUint32(id));
}

absl::Status Tokenize(ModelRegistry& registry,
                      const v1::TokenizeRequest& request,
                      v1::TokenizeResponse& response) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  if (request.content_case() == v1::TokenizeRequest::CONTENT_NOT_SET) {
    return absl::InvalidArgumentError("content: text or raw_text is needed");
  }
  v1::TextPrompt prompt;
  prompt.set_raw_text(request.has_raw_text() ? request.raw_text()
                                             : request.text());
  prompt.set_add_bos(request.add_bos());
  prompt.set_parse_special(request.parse_special());
  ASSIGN_OR_RETURN(const Prompt result, FromText(*model, prompt));
  AddIds(result.ids, response);
  return absl::OkStatus();
}

absl::Status Detokenize(ModelRegistry& registry,
                        const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse& response) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  if (request.ids_size() > kMaxDetokenizeIds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids: has ", request.ids_size(), " ids, at most ", kMaxDetokenizeIds));
  }
  v1::TokenPrompt prompt;
  *prompt.mutable_ids() = request.ids();
  ASSIGN_OR_RETURN(const Prompt checked, FromIds(*model, prompt));
  response.set_text(
      model->engine->tokenizer().Decode(checked.ids, request.render_special()));
  return absl::OkStatus();
}

absl::Status CountTokens(ModelRegistry& registry,
                         const v1::CountTokensRequest& request,
                         v1::CountTokensResponse& response) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  if (request.input_case() == v1::CountTokensRequest::INPUT_NOT_SET) {
    return absl::InvalidArgumentError("input: text or chat is needed");
  }
  ASSIGN_OR_RETURN(const Prompt result, request.has_chat()
                                            ? FromChat(*model, request.chat())
                                            : FromText(*model, request.text()));
  response.set_n_tokens(ToUint32(static_cast<int64_t>(result.ids.size())));
  response.set_n_ctx(ToUint32(model->engine->n_ctx()));
  return absl::OkStatus();
}

absl::Status ApplyChatTemplate(ModelRegistry& registry,
                               const v1::ApplyChatTemplateRequest& request,
                               v1::ApplyChatTemplateResponse& response) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  ASSIGN_OR_RETURN(const Prompt result, FromChat(*model, request.chat()));
  response.set_text(result.text);
  AddIds(result.ids, response);
  response.set_chat_format(result.chat_format);
  response.set_chat_format_reason(result.chat_format_reason);
  return absl::OkStatus();
}

class TokenizerServiceImpl final
    : public v1::TokenizerService::CallbackService {
 public:
  TokenizerServiceImpl(ModelRegistry& registry, CallGate& gate)
      : registry_(registry), gate_(gate) {}

  ServerUnaryReactor* Tokenize(CallbackServerContext* context,
                               const v1::TokenizeRequest* request,
                               v1::TokenizeResponse* response) override {
    return AnswerUnary(context, gate_, [&] {
      return services::Tokenize(registry_, *request, *response);
    });
  }

  ServerUnaryReactor* Detokenize(CallbackServerContext* context,
                                 const v1::DetokenizeRequest* request,
                                 v1::DetokenizeResponse* response) override {
    return AnswerUnary(context, gate_, [&] {
      return services::Detokenize(registry_, *request, *response);
    });
  }

  ServerUnaryReactor* CountTokens(CallbackServerContext* context,
                                  const v1::CountTokensRequest* request,
                                  v1::CountTokensResponse* response) override {
    return AnswerUnary(context, gate_, [&] {
      return services::CountTokens(registry_, *request, *response);
    });
  }

  ServerUnaryReactor* ApplyChatTemplate(
      CallbackServerContext* context,
      const v1::ApplyChatTemplateRequest* request,
      v1::ApplyChatTemplateResponse* response) override {
    return AnswerUnary(context, gate_, [&] {
      return services::ApplyChatTemplate(registry_, *request, *response);
    });
  }

 private:
  ModelRegistry& registry_;
  CallGate& gate_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewTokenizerService(ModelRegistry& registry,
                                                   CallGate& gate) {
  return std::make_unique<TokenizerServiceImpl>(registry, gate);
}

}  // namespace plimsoll::services
