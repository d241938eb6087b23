#include "services/http/local/local_models.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/generation/prompt.h"
#include "services/generation/served_model.h"
#include "services/generation/tokenize.h"
#include "services/http/local/local_text_call.h"
#include "services/http/local/server_status.h"
#include "services/wire/errors.h"

namespace plimsoll::services {

Json LocalModels::Status(const std::string& state) {
  return ServerStatus(registry_, state);
}

std::shared_ptr<TextCall> LocalModels::NewTextCall(const HttpRoom& room,
                                                   const TextDialect& dialect,
                                                   HttpExchange exchange) {
  return std::make_shared<LocalTextCall>(registry_, room, dialect,
                                         std::move(exchange));
}

absl::StatusOr<TokenAnswer> LocalModels::Tokenize(
    const v1::TokenizeRequest& request, const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const ServedModel model, registry_.Serve(request.model()));
  ASSIGN_OR_RETURN(
      const v1::TokenizeResponse response,
      services::Tokenize(model, request, caller.stop, caller.held));
  return TokenAnswer{.ids = {response.ids().begin(), response.ids().end()},
                     .n_ctx = model.engine->n_ctx()};
}

absl::StatusOr<TokenAnswer> LocalModels::Render(
    const v1::ApplyChatTemplateRequest& request, const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const ServedModel model, registry_.Serve(request.model()));
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  ASSIGN_OR_RETURN(Prompt prompt,
                   FromChat(model, request.chat(), {.stop = caller.stop}));
  return TokenAnswer{.ids = std::move(prompt.ids),
                     .n_ctx = model.engine->n_ctx()};
}

absl::StatusOr<TokenAnswer> LocalModels::Detokenize(
    const v1::DetokenizeRequest& request, const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const ServedModel model, registry_.Serve(request.model()));
  ASSIGN_OR_RETURN(
      v1::DetokenizeResponse response,
      services::Detokenize(model, request, caller.stop, caller.held));
  return TokenAnswer{.text = std::move(*response.mutable_text()),
                     .n_ctx = model.engine->n_ctx()};
}

bool LocalModels::LoadFirst(const absl::Status& error, const OnLoaded& then) {
  const ErrorDetails details = DetailsOf(error);
  const bool is_absent = details.reason == v1::ERROR_REASON_MODEL_NOT_LOADED ||
                         details.reason == v1::ERROR_REASON_MODEL_NOT_READY;
  if (!is_absent || !registry_.loads_on_demand()) return false;
  const auto go_on = [then](absl::StatusOr<ServedModel> loaded) {
    if (!loaded.ok()) return then(loaded.status());
    then(std::make_shared<const ServedModel>(*std::move(loaded)));
  };
  auto served = registry_.ServeOrLoad(details.metadata.at("model"), go_on);
  if (!served.ok()) return false;
  if (served->has_value()) go_on(**std::move(served));
  return true;
}

}  // namespace plimsoll::services
