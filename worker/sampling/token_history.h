// The tokens of one context that have not left it, by their position in the
// cache, and where its turns begin.
#ifndef PLIMSOLL_WORKER_SAMPLING_TOKEN_HISTORY_H_
#define PLIMSOLL_WORKER_SAMPLING_TOKEN_HISTORY_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace plimsoll::worker {

// Memory: 4 bytes a token that has not left. An index counts all tokens of the
// stream from 0; a position is where the cache keeps one: recomputing starts
// the positions over, shifting does not touch them.
class TokenHistory {
 public:
  // The first `prefix_tokens` of the stream never leave.
  explicit TokenHistory(int64_t prefix_tokens)
      : prefix_tokens_(prefix_tokens) {}
  // The stream begins with `ids`, which are not copied.
  TokenHistory(int64_t prefix_tokens, std::vector<int32_t> ids);
  TokenHistory() = default;

  // Of the stream so far, those that left included.
  int64_t n_tokens() const {
    return static_cast<int64_t>(prefix_.size() + recent_.size()) + evicted_;
  }
  int64_t n_evicted() const { return evicted_; }
  int64_t n_live() const { return n_tokens() - evicted_; }
  // Index of the oldest token after the prefix that has not left.
  int64_t first_recent() const { return prefix_tokens_ + evicted_; }
  // Positions that are known, computed or not.
  int64_t n_positions() const { return n_tokens() - restarted_; }
  // Positions, of these, whose tokens have left.
  int64_t evicted_positions() const { return evicted_ - restarted_; }

  // Room for `n_live` tokens, so that Append allocates nothing up to there.
  void Reserve(int64_t n_live);
  void Append(int32_t id);
  void Append(std::span<const int32_t> ids) {
    for (const int32_t id : ids) Append(id);
  }
  // Takes the newest token back. Requires that there is one.
  void RemoveLast();
  // The next token begins a turn. A stream without turns has none to leave.
  void BeginTurn() { turns_.push_back(n_tokens()); }
  // Turns of which a token is left; the last one may be empty still.
  int64_t n_turns() const { return static_cast<int64_t>(turns_.size()); }
  // Sets `turns` to the tokens that leave with the oldest turn, the two oldest,
  // ...; the newest turn is not among them.
  void WholeTurns(std::vector<int64_t>& turns) const;

  // The oldest `n_tokens` after the prefix leave. Requires that there are so
  // many.
  void Evict(int64_t n_tokens);
  // What is left is computed again: the positions start over.
  void Restart() { restarted_ = evicted_; }

  // The index of the token at `position`.
  int64_t IndexAt(int64_t position) const {
    return position < prefix_tokens_ ? position : position + restarted_;
  }
  // The token at `position`. Requires one that has not left.
  int32_t TokenAt(int64_t position) const;
  // The first `n` tokens of the stream. Requires that none has left.
  std::vector<int32_t> Oldest(int64_t n) const;
  // Sets `ids` to the newest `n` tokens that have not left, or all of them,
  // oldest first.
  void Newest(int64_t n, std::vector<int32_t>& ids) const;

 private:
  int64_t prefix_tokens_ = 0;
  std::vector<int32_t> prefix_;
  std::vector<int32_t> recent_;
  std::deque<int64_t> turns_;  // indices of their first tokens, ascending
  int64_t evicted_ = 0;
  int64_t restarted_ = 0;  // evicted when the positions last started over
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_TOKEN_HISTORY_H_
