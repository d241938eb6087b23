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

// Why a session keeps texts, and when to stop making it.
struct TextsWanted {
  std::string reason;
  StopCheck stop;
};

// Sets `options`, whose format is chosen, for a session that keeps texts. The
// model's own template renders the chat unless the request names a format or
// the model has one. Earlier turns are kept as far as they fit.
// Errors: kInvalidArgument naming the field, or if the template refuses a chat
// that begins like this; kOutOfRange if the chat's opening does not fit; those
// of wanted.stop.
absl::Status KeepTexts(const ServedModel& model,
                       const v1::OpenSessionRequest& request,
                       TextsWanted wanted, worker::SessionOptions& options);

// The result of rendering a message to such a session.
struct RenderedMessage {
  std::vector<int32_t> ids;  // the whole chat, with the opening of the reply
  std::shared_ptr<const worker::RenderedChat> chat;
};

// The limit of a reply, and when to stop rendering what comes before it.
struct ReplyLimits {
  int64_t max_tokens;  // 0: no limit
  StopCheck stop;
};

// Renders the chat of `session` with the message or the responses of
// `request`. If the chat leaves less room for a reply than both
// limits.max_tokens and n_ctx - evict_to, the oldest turns leave until the chat
// has at most evict_to tokens.
// Errors: kInvalidArgument naming the field, or what the template says;
// kOutOfRange if the newest turn does not fit, with both numbers; those of
// limits.stop.
absl::StatusOr<RenderedMessage> RenderMessage(
    const worker::Engine& engine, const worker::SessionInfo& session,
    const v1::ChatRequest& request, const ReplyLimits& limits);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_RENDERED_SESSION_H_
