// Chats whose contexts stay between calls: whose they are, what they hold, and
// for how long.
#ifndef PLIMSOLL_WORKER_ENGINE_SESSION_BOOK_H_
#define PLIMSOLL_WORKER_ENGINE_SESSION_BOOK_H_

#include <cstdint>
#include <map>
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
#include "worker/engine/engine.h"
#include "worker/sampling/token_history.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// A session's context, and the slot that holds it, if there is one.
struct Session {
  SessionOptions options;
  RollPlan roll;
  // As of the end of its last call. Its newest token may not be computed yet.
  TokenHistory history;
  std::optional<int64_t> slot;
  int64_t n_computed = 0;  // positions of `history` that are in the slot
  bool is_busy = false;
  int64_t n_turns = 0;  // begun, those that left included
  int64_t n_evictions = 0;
  absl::Time opened;
  absl::Time last_used;  // when its last call began or ended

  // Its next call computes its context again.
  void ForgetComputed() {
    n_computed = 0;
    history.Restart();
  }
  // Its tokens with those of the next turn up to the reply. The session itself
  // stays as it is.
  // Errors: kOutOfRange if the turn is longer than the context behind the
  // pinned prefix, with both numbers.
  absl::StatusOr<TokenHistory> NextTurn(std::span<const int32_t> content,
                                        const Tokenizer& tokenizer) const;
};

// A state machine without threads, clock or device. Sessions that nobody used
// for their ttl are closed when the next call is made.
class SessionBook {
 public:
  // A session that is the only one its tenant has more than a newcomer has is
  // not closed for that before nobody used it, or its call has run, for so
  // long.
  static constexpr absl::Duration kKeptIdle = absl::Minutes(5);

  explicit SessionBook(int64_t max_sessions) : max_sessions_(max_sessions) {}

  struct Opened {
    int64_t key;
    // A session that was closed for it and whose call must end.
    std::optional<int64_t> ended;
  };
  // At max_sessions one is closed for it, of a tenant with more of them than
  // its owner, or of a peer with more than its peer: one that no call has, if
  // there is such a one. Errors: kAlreadyExists if the owner has one of this
  // id; kResourceExhausted at max_sessions if there is none to be closed.
  absl::StatusOr<Opened> Open(SessionOptions options, const RollPlan& roll,
                              absl::Time now);
  // The key of the session of this id and owner.
  // Errors: kNotFound.
  absl::StatusOr<int64_t> Find(absl::string_view id, absl::string_view owner,
                               absl::Time now);
  // Null if it was closed.
  Session* Get(int64_t key);
  // Its slot, unless a call has it, waits to be freed. Requires that it is
  // there.
  void Close(int64_t key);
  // Keys of all sessions, the oldest first.
  std::vector<int64_t> Keys(absl::Time now);

  // Tells `visit` the slots of sessions that no call has.
  void ForIdleSlots(absl::FunctionRef<void(int64_t slot)> visit) const;
  // The slot of the session that no call has for longest, which loses it;
  // nullopt if there is none.
  std::optional<int64_t> GiveUpSlot();
  // Slots of sessions that were closed; then forgotten.
  std::vector<int64_t> TakeFreedSlots(absl::Time now);

  int64_t Count(absl::Time now) {
    CloseExpired(now);
    return static_cast<int64_t>(sessions_.size());
  }

 private:
  // The session that is closed for a newcomer's, if there is one.
  std::optional<int64_t> WhoGivesWay(const SessionOptions& newcomer,
                                     absl::Time now) const;
  void CloseExpired(absl::Time now);

  int64_t max_sessions_;
  int64_t next_key_ = 1;
  std::map<int64_t, Session> sessions_;
  std::vector<int64_t> freed_slots_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_SESSION_BOOK_H_
