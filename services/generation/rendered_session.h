// Sessions that keep texts: each message renders the whole chat anew.
#ifndef PLIMSOLL_SERVICES_GENERATION_RENDERED_SESSION_H_
#define PLIMSOLL_SERVICES_GENERATION_RENDERED_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "plimsoll/v1/session.pb.h"
#include "services/generation/served_model.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/session_chat.h"

namespace plimsoll::services {

// Makes `options`, with its format chosen, those of a session that keeps texts,
// because of `reason`. The model's own template renders it unless the request
// names a format or the model has one. Turns that were said before are kept as
// far as they fit.
// Errors: kInvalidArgument naming the field, or if the template refuses a chat
// that begins like this; kOutOfRange if the chat's opening does not fit; those
// of `stop`.
absl::Status KeepTexts(const ServedModel& model,
                       const v1::OpenSessionRequest& request,
                       std::string reason, StopCheck stop,
                       worker::SessionOptions& options);

// What a message to such a session becomes.
struct RenderedMessage {
  std::vector<int32_t> ids;  // the whole chat, with what opens the reply
  std::shared_ptr<const worker::RenderedChat> chat;
};

// Renders the chat of `session` with the message or the responses of
// `request`. The oldest turns leave until the chat has at most evict_to tokens,
// if it leaves less room for a reply than `max_tokens` (0: no limit) and than
// n_ctx - evict_to.
// Errors: kInvalidArgument naming the field, or what the template says;
// kOutOfRange if the newest turn does not fit, with both numbers; those of
// `stop`.
absl::StatusOr<RenderedMessage> RenderMessage(
    const worker::Engine& engine, const worker::SessionInfo& session,
    const v1::ChatRequest& request, int64_t max_tokens, StopCheck stop);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_RENDERED_SESSION_H_
