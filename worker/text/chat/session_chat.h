// The texts of a session that renders its whole chat anew for each message.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_SESSION_CHAT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_SESSION_CHAT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/model_template.h"
#include "worker/text/chat/reply_splitter.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// The settings for rendering a session's chat, fixed when the session opens.
// The messages before the first turn never leave.
struct SessionChat {
  // The most bytes of text that a session keeps, unless its newest turn alone
  // has more. Beyond this, the oldest turns leave.
  static constexpr int64_t kMaxBytes = 4 << 20;

  std::string reason;  // why the chat is rendered anew
  std::optional<std::string> system;
  std::vector<Tool> tools;
  // The model's own template; null: the session's built-in format.
  std::shared_ptr<const ModelTemplate> own_template;
  std::string template_arguments;  // as ModelTemplate::Render takes them
  absl::Time now;                  // the time of the chat, which stays
  int64_t evict_to = 0;            // most tokens that stay when turns leave
};

// A turn: a user's message, the reply and, if that has calls of tools, their
// responses and further replies.
using ChatTurn = std::vector<ChatMessage>;
// The oldest turn comes first. Turns never change, so copies share them.
using ChatTurns = std::vector<std::shared_ptr<const ChatTurn>>;

// The bytes of a turn's texts.
int64_t TextBytes(const ChatTurn& turn);

// The rendered chat for a message to such a session.
struct RenderedChat {
  // The turns that the session had before. If the session has other turns now,
  // the rendering is not valid.
  std::shared_ptr<const ChatTurns> before;
  // The turns that were rendered. The newest turn ends with the new message.
  ChatTurns turns;
  bool begins_turn = true;  // false: the newest turn continues
  // The tokens that left with the oldest turns: their number, and the place of
  // the first one in a rendering of all turns.
  int64_t n_left_tokens = 0;
  int64_t first_left = 0;
  std::optional<ReplyReading> reading;  // the way to split the reply

  int64_t n_left_turns() const {
    return static_cast<int64_t>(before->size() + size_t{begins_turn ? 1U : 0U} -
                                turns.size());
  }
};

// Turns the text of a reply into a message. Invalid calls become part of the
// content. So do calls beyond kMaxToolCalls, as JSON.
ChatMessage ReadReply(const std::optional<ReplyReading>& reading,
                      absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_SESSION_CHAT_H_
