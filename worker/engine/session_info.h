// A session as its client sees it: how to open one, and what it holds.
#ifndef PLIMSOLL_WORKER_ENGINE_SESSION_INFO_H_
#define PLIMSOLL_WORKER_ENGINE_SESSION_INFO_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/cache/roll_plan.h"
#include "worker/text/chat/chat_format.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/model_template.h"
#include "worker/text/chat/session_chat.h"
#include "worker/text/chat/template_frame.h"

namespace plimsoll::worker {

// A turn that was said before its session was opened.
struct SessionTurn {
  std::vector<int32_t> content;  // the user's
  std::vector<int32_t> reply;    // without the end token at its end
};

// A session is a chat whose context stays between calls. Its context always
// rolls: whole turns leave, a user's message together with its reply. With
// `chat` the session has texts instead, and keeps no context: each message is
// a sequence of its own with the whole chat.
struct SessionOptions {
  static constexpr int64_t kMaxIdBytes = 128;
  static constexpr absl::Duration kDefaultTtl = absl::Minutes(30);
  static constexpr absl::Duration kMaxTtl = absl::Hours(30 * 24);
  static constexpr int64_t kMaxTurns = kMaxChatMessages / 2;

  std::string id;         // 1 to kMaxIdBytes bytes
  std::string owner;      // a tenant; other tenants cannot see the session
  std::string peer = {};  // who opened it, like Claim::peer
  ChatFormat format = ChatFormat::kChatMl;
  // The frame of a model's own template, which is used in place of `format`;
  // null without one.
  std::shared_ptr<const TemplateFrame> own_frame = nullptr;
  ChatFrame frame;  // made for own_frame or `format`; its opening is pinned
  RollMethod roll_method = RollMethod::kShift;
  std::optional<int64_t> evict_to;  // like RollOptions::evict_to
  // The session is closed when no call has used it for this long.
  absl::Duration ttl = kDefaultTtl;
  // The earlier turns, the oldest first; at most kMaxTurns. Turns that the
  // context has no room for are left out, the oldest first.
  std::vector<SessionTurn> turns = {};
  // How a session with texts renders its chat; null: it has none. It uses no
  // frame, and `said` in place of `turns`.
  std::shared_ptr<const SessionChat> chat = nullptr;
  ChatTurns said = {};
};

// What a session holds.
struct SessionInfo {
  std::string id;
  ChatFormat format;
  // SessionOptions::own_frame.
  std::shared_ptr<const TemplateFrame> own_frame = nullptr;
  // SessionOptions::chat, and what was said and has not left.
  std::shared_ptr<const SessionChat> chat = nullptr;
  std::shared_ptr<const ChatTurns> said = nullptr;
  bool is_busy;             // a call runs or waits
  int64_t n_turns;          // begun so far, evicted ones included
  int64_t n_live_turns;     // with at least one token in the context
  int64_t n_tokens;         // so far, evicted ones included
  int64_t n_live_tokens;    // in the context, pinned ones included
  int64_t n_pinned_tokens;  // tokens that never leave
  int64_t capacity_tokens;  // the context's capacity
  int64_t n_evictions;
  int64_t n_evicted;       // tokens
  int64_t reserved_bytes;  // bytes in the KV cache
  absl::Duration age;
  absl::Duration idle;  // since the last call ended; 0 while one runs
  absl::Duration ttl;

  // The format's name, or kTemplateFormat.
  absl::string_view format_name() const {
    const bool is_own = own_frame != nullptr ||
                        (chat != nullptr && chat->own_template != nullptr);
    return is_own ? kTemplateFormat : ChatFormatName(format);
  }
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_SESSION_INFO_H_
