#include "worker/engine/session_book.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"

namespace plimsoll::worker {
namespace {

absl::Status TooMany(int64_t n_sessions) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the model has ", n_sessions,
                   " sessions, and may have no more: close one, or load the "
                   "model with more slots"));
}

}  // namespace

void Session::Recall(std::span<const SessionTurn> turns) {
  const ChatFrame& frame = options.frame;
  // The tokens of turns[i], with what separates it from the next turn.
  const auto tokens_of = [&](size_t i) {
    const size_t n_after =
        i + 1 < turns.size() ? frame.after_reply.size() : size_t{0};
    return static_cast<int64_t>(turns[i].content.size() +
                                frame.after_user.size() +
                                turns[i].reply.size() + n_after);
  };
  int64_t n_all = 0;
  for (size_t i = 0; i < turns.size(); ++i) n_all += tokens_of(i);
  int64_t n_room = roll.capacity - roll.prefix_tokens;
  if (n_all > n_room) {
    n_room = std::max(roll.evict_to - roll.prefix_tokens, roll.page_tokens);
  }
  size_t first = turns.size();
  int64_t n_kept = 0;
  while (first > 0) {
    const int64_t n_turn = tokens_of(first - 1);
    if (n_kept > 0 && n_kept + n_turn > n_room) break;
    n_kept += n_turn;
    --first;
  }
  int64_t n_skipped = std::max<int64_t>(n_kept - n_room, 0);
  const auto append = [&](std::span<const int32_t> ids) {
    const int64_t n = std::min(n_skipped, static_cast<int64_t>(ids.size()));
    n_skipped -= n;
    history.Append(ids.subspan(static_cast<size_t>(n)));
  };
  history.Append(frame.opening);
  for (size_t i = first; i < turns.size(); ++i) {
    if (i > first) history.Append(frame.after_reply);
    history.BeginTurn();
    append(turns[i].content);
    append(frame.after_user);
    append(turns[i].reply);
    ++n_turns;
  }
}

absl::StatusOr<TokenHistory> Session::NextTurn(
    std::span<const int32_t> content, const Tokenizer& tokenizer) const {
  const ChatFrame& frame = options.frame;
  const auto n_turn =
      static_cast<int64_t>(content.size() + frame.after_user.size());
  const int64_t n_room = roll.capacity - roll.prefix_tokens;
  if (n_turn > n_room) {
    return absl::OutOfRangeError(absl::StrCat(
        "the message has ", n_turn, " tokens, the context of the session ",
        n_room, " behind its ", roll.prefix_tokens,
        " pinned ones: shorten the message, or load the model with a larger "
        "n_ctx"));
  }
  TokenHistory next = history;
  if (next.n_tokens() == 0) {
    next.Append(frame.opening);
  } else {
    const int32_t last = next.TokenAt(next.n_positions() - 1);
    if (next.n_positions() > n_computed && tokenizer.IsEnd(last)) {
      // The frame has the reply's end token too. This one is not computed yet.
      next.RemoveLast();
    }
    next.Append(frame.after_reply);
  }
  next.BeginTurn();
  next.Append(content);
  next.Append(frame.after_user);
  return next;
}

void Session::KeepReply(const RenderedChat& message, ChatMessage reply,
                        int64_t n_tokens) {
  ChatTurns turns = message.turns;
  ChatTurn newest = *turns.back();
  newest.push_back(std::move(reply));
  turns.back() = std::make_shared<const ChatTurn>(std::move(newest));
  said = std::make_shared<const ChatTurns>(std::move(turns));
  n_live = n_tokens;
  n_evicted += message.n_left_tokens;
  if (message.n_left_turns() > 0) ++n_evictions;
}

SessionInfo Session::Describe(int64_t reserved_bytes, absl::Time now) const {
  const bool has_texts = options.chat != nullptr;
  return {.id = options.id,
          .format = options.format,
          .own_frame = options.own_frame,
          .chat = options.chat,
          .said = said,
          .is_busy = is_busy,
          .n_turns = n_turns,
          .n_live_turns = has_texts ? std::ssize(*said) : history.n_turns(),
          .n_tokens = has_texts ? n_live + n_evicted : history.n_tokens(),
          .n_live_tokens = has_texts ? n_live : history.n_live(),
          .n_pinned_tokens = roll.prefix_tokens,
          .capacity_tokens = roll.capacity,
          .n_evictions = n_evictions,
          .n_evicted = has_texts ? n_evicted : history.n_evicted(),
          .reserved_bytes = has_texts ? 0 : reserved_bytes,
          .age = now - opened,
          .idle = is_busy ? absl::ZeroDuration() : now - last_used,
          .ttl = options.ttl};
}

absl::StatusOr<SessionBook::Opened> SessionBook::Open(SessionOptions options,
                                                      const RollPlan& roll,
                                                      absl::Time now) {
  CloseExpired(now);
  std::optional<int64_t> ended;
  for (const auto& [key, session] : sessions_) {
    if (session.options.id == options.id &&
        session.options.owner == options.owner) {
      return absl::AlreadyExistsError("there is a session with this id");
    }
  }
  if (PLIMSOLL_FAULT("session.open")) return TooMany(Count(now));
  if (const int64_t n = Count(now); n >= max_sessions_) {
    const std::optional<int64_t> key = ChooseToClose(options, now);
    if (!key) return TooMany(n);
    if (sessions_.at(*key).is_busy) ended = *key;
    Close(*key);
  }
  const int64_t key = next_key_++;
  Session& session = sessions_[key];
  session.options = std::move(options);
  session.roll = roll;
  session.history = TokenHistory(roll.prefix_tokens);
  const std::vector<SessionTurn> turns =
      std::exchange(session.options.turns, {});
  if (!turns.empty()) session.Recall(turns);
  if (session.options.chat != nullptr) {
    session.said = std::make_shared<const ChatTurns>(
        std::exchange(session.options.said, {}));
    session.n_turns = std::ssize(*session.said);
  }
  session.opened = now;
  session.last_used = now;
  return Opened{key, ended};
}

int64_t SessionBook::CountLike(const SessionOptions& options,
                               Among among) const {
  return std::count_if(
      sessions_.begin(), sessions_.end(), [&](const auto& entry) {
        const SessionOptions& one = entry.second.options;
        return one.peer == options.peer &&
               (among == Among::kPeer || one.owner == options.owner);
      });
}

// The peer with most sessions gives one up: the one that has been idle for
// longest, or else the one whose call has run for longest. Within the
// newcomer's own peer, tenants are compared in the same way.
std::optional<int64_t> SessionBook::ChooseToClose(
    const SessionOptions& newcomer, absl::Time now) const {
  std::optional<int64_t> first;
  std::tuple<bool, int64_t, absl::Duration> most;
  for (const auto& [key, session] : sessions_) {
    const bool is_same_peer = session.options.peer == newcomer.peer;
    const Among among = is_same_peer ? Among::kTenant : Among::kPeer;
    const int64_t n = CountLike(session.options, among);
    const int64_t n_more = n - CountLike(newcomer, among);
    const absl::Duration idle = now - session.last_used;
    if (n_more < 1 || (n_more == 1 && idle < kKeptIdle)) continue;
    // A session with a running call is closed only if there is no other.
    const std::tuple one(!session.is_busy, n, idle);
    if (!first || one > most) {
      first = key;
      most = one;
    }
  }
  return first;
}

absl::StatusOr<int64_t> SessionBook::Find(absl::string_view id,
                                          absl::string_view owner,
                                          absl::Time now) {
  CloseExpired(now);
  for (const auto& [key, session] : sessions_) {
    if (session.options.id == id && session.options.owner == owner) return key;
  }
  return absl::NotFoundError(
      "there is no session with this id: it was never opened, was closed, gave "
      "way to another tenant's, or nobody used it for its ttl");
}

bool SessionBook::KeepsTexts(absl::string_view id) const {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& one) {
    const SessionOptions& options = one.second.options;
    return options.chat != nullptr && options.id == id;
  });
}

Session* SessionBook::Get(int64_t key) {
  const auto found = sessions_.find(key);
  return found == sessions_.end() ? nullptr : &found->second;
}

void SessionBook::Close(int64_t key) {
  const Session& session = sessions_.at(key);
  if (session.slot && !session.is_busy) freed_slots_.push_back(*session.slot);
  sessions_.erase(key);
}

std::vector<int64_t> SessionBook::Keys(absl::Time now) {
  CloseExpired(now);
  std::vector<int64_t> keys;
  for (const auto& [key, session] : sessions_) keys.push_back(key);
  return keys;
}

void SessionBook::ForIdleSlots(
    absl::FunctionRef<void(int64_t slot)> visit) const {
  for (const auto& [key, session] : sessions_) {
    if (session.slot && !session.is_busy) visit(*session.slot);
  }
}

std::vector<int64_t> SessionBook::TakeFreedSlots(absl::Time now) {
  CloseExpired(now);
  return std::exchange(freed_slots_, {});
}

std::optional<int64_t> SessionBook::GiveUpSlot() {
  Session* idle = nullptr;
  for (auto& [key, session] : sessions_) {
    if (!session.slot || session.is_busy) continue;
    if (idle == nullptr || session.last_used < idle->last_used) {
      idle = &session;
    }
  }
  if (idle == nullptr) return std::nullopt;
  idle->ForgetComputed();
  return std::exchange(idle->slot, std::nullopt);
}

void SessionBook::CloseExpired(absl::Time now) {
  std::vector<int64_t> expired;
  for (const auto& [key, session] : sessions_) {
    if (!session.is_busy && now >= session.last_used + session.options.ttl) {
      expired.push_back(key);
    }
  }
  for (const int64_t key : expired) Close(key);
}

}  // namespace plimsoll::worker
