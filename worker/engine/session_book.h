// The chats whose contexts stay between calls: who owns them, what they hold,
// and for how long.
#ifndef PLIMSOLL_WORKER_ENGINE_SESSION_BOOK_H_
#define PLIMSOLL_WORKER_ENGINE_SESSION_BOOK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/cache/roll_plan.h"
#include "worker/engine/session_info.h"
#include "worker/sampling/token_history.h"
#include "worker/text/chat/session_chat.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// One session: its context, and the slot that holds it, if there is one.
struct Session {
  SessionOptions options;
  RollPlan roll;
  // The tokens at the end of its last call. The newest token may not be
  // computed yet.
  TokenHistory history;
  std::optional<int64_t> slot;
  int64_t n_computed = 0;  // positions of `history` that are in the slot
  bool is_busy = false;    // a call runs or waits
  int64_t n_turns = 0;     // begun so far, evicted ones included
  int64_t n_evictions = 0;
  // The next fields are for a session with texts, which has neither history nor
  // slot.
  // Turns that are still in the chat; set for each session with texts.
  std::shared_ptr<const ChatTurns> said;
  int64_t n_live = 0;     // tokens of its newest rendering, with the reply
  int64_t n_evicted = 0;  // tokens
  absl::Time opened;
  absl::Time last_used;  // when its last call began or ended

  // Notes that the slot is lost: the next call computes the context again.
  void ForgetComputed() {
    n_computed = 0;
    history.Restart();
  }
  // Begins a new session with turns that were said before, none of them
  // computed. If they do not all fit, the oldest are left out until evict_to is
  // reached. The newest one stays; if it is too long by itself, its newest
  // tokens do.
  void Recall(std::span<const SessionTurn> turns);
  // The session's tokens followed by those of the next turn, up to its reply.
  // Leaves the session as it is.
  // Errors: kOutOfRange if the turn is longer than the context behind the
  // pinned prefix, with both numbers.
  absl::StatusOr<TokenHistory> NextTurn(std::span<const int32_t> content,
                                        const Tokenizer& tokenizer) const;
  // Ends a call of a session with texts: what was said, and what was replied,
  // is part of the chat. The call's context had `n_tokens`.
  void KeepReply(const RenderedChat& message, ChatMessage reply,
                 int64_t n_tokens);
  // The session's description for its client. Every session reserves the same
  // bytes, but for those with texts.
  SessionInfo Describe(int64_t reserved_bytes, absl::Time now) const;
};

// All sessions of an engine. A state machine without threads, clock or device.
// Every method with the argument `now` first closes the sessions whose ttl has
// passed without use.
class SessionBook {
 public:
  // A tenant with just one session more than a newcomer keeps that session
  // until it has been idle for this long, or until its call has run for this
  // long.
  static constexpr absl::Duration kKeptIdle = absl::Minutes(5);

  explicit SessionBook(int64_t max_sessions) : max_sessions_(max_sessions) {}

  struct Opened {
    int64_t key;
    // The session that was closed for the new one, if a call of it must end.
    std::optional<int64_t> ended;
  };
  // Opens a session. At max_sessions a session of another owner is closed
  // first: of a tenant with more sessions than this one, or of a peer with more
  // than this one's peer. One that a call uses is closed only if there is no
  // idle one.
  // Errors: kAlreadyExists if the owner has a session of this id;
  // kResourceExhausted at max_sessions if no session can be closed.
  absl::StatusOr<Opened> Open(SessionOptions options, const RollPlan& roll,
                              absl::Time now);
  // The key of the session with this id and owner.
  // Errors: kNotFound.
  absl::StatusOr<int64_t> Find(absl::string_view id, absl::string_view owner,
                               absl::Time now);
  // True if a session of this id, whoever owns it, keeps texts.
  bool KeepsTexts(absl::string_view id) const;
  // The session of this key; null if it was closed.
  Session* Get(int64_t key);
  // Forgets a session, which must be there. Its slot can be taken by
  // TakeFreedSlots, unless a call still uses it.
  void Close(int64_t key);
  // The keys of all sessions, the oldest first.
  std::vector<int64_t> Keys(absl::Time now);

  // Tells `visit` the slots that idle sessions keep.
  void ForIdleSlots(absl::FunctionRef<void(int64_t slot)> visit) const;
  // Takes the slot of the session that has been idle for longest; nullopt if no
  // idle session has one.
  std::optional<int64_t> GiveUpSlot();
  // Takes the slots of closed sessions.
  std::vector<int64_t> TakeFreedSlots(absl::Time now);

  int64_t Count(absl::Time now) {
    CloseExpired(now);
    return static_cast<int64_t>(sessions_.size());
  }

 private:
  // The session to close for a newcomer; nullopt if no session gives way.
  std::optional<int64_t> ChooseToClose(const SessionOptions& newcomer,
                                       absl::Time now) const;
  // Counts sessions of the same peer, or of the same tenant of that peer.
  enum class Among { kPeer, kTenant };
  int64_t CountLike(const SessionOptions& options, Among among) const;
  void CloseExpired(absl::Time now);

  int64_t max_sessions_;
  int64_t next_key_ = 1;
  std::map<int64_t, Session> sessions_;  // by key
  std::vector<int64_t> freed_slots_;     // slots of closed sessions
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_SESSION_BOOK_H_
