#include "services/generation/open_session.h"

#include <utility>

#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/generation/prompt.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {

absl::StatusOr<v1::Session> OpenSession(const ServedModel& model,
                                        const Caller& caller,
                                        const v1::OpenSessionRequest& request) {
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  ASSIGN_OR_RETURN(
      const worker::ChatFormatChoice choice,
      ChooseFormat(
          model, request.has_chat_format() ? &request.chat_format() : nullptr));
  const worker::EncodeLimits limits = {.max_tokens = model.engine->n_ctx(),
                                       .stop = caller.stop};
  auto options =
      FromProto(request, choice.format, model.engine->tokenizer(), limits);
  if (!options.ok()) return EncodeStatus(options.status(), limits);
  options->owner = caller.claim.tenant;
  options->peer = caller.claim.peer;
  const auto info = model.engine->OpenSession(*std::move(options));
  if (!info.ok()) return SessionStatus(info.status());
  return DescribeSession(model, *info);
}

v1::Session DescribeSession(const ServedModel& model,
                            const worker::SessionInfo& info) {
  v1::Session message = ToProto(info);
  message.set_model(model.name);
  return message;
}

}  // namespace plimsoll::services
