// The tokens that one context still has, by their position in the cache, and
// the beginnings of its turns.
#ifndef PLIMSOLL_WORKER_SAMPLING_TOKEN_HISTORY_H_
#define PLIMSOLL_WORKER_SAMPLING_TOKEN_HISTORY_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace plimsoll::worker {

// Takes 4 bytes for each token that has not left. An index counts all tokens of
// the stream from 0. A position is a token's place in the cache. Recomputing a
// context starts its positions again at the beginning; shifting does not change
// them.
class TokenHistory {
 public:
  // The first `prefix_tokens` of the stream never leave.
  explicit TokenHistory(int64_t prefix_tokens)
      : prefix_tokens_(prefix_tokens) {}
  // The stream begins with `ids`, which are not copied.
  TokenHistory(int64_t prefix_tokens, std::vector<int32_t> ids);
  TokenHistory() = default;

  // Tokens of the stream so far, evicted ones included.
  int64_t n_tokens() const {
    return static_cast<int64_t>(prefix_.size() + recent_.size()) + evicted_;
  }
  int64_t n_evicted() const { return evicted_; }
  int64_t n_live() const { return n_tokens() - evicted_; }
  // The index of the oldest token behind the prefix that has not left.
  int64_t first_recent() const { return prefix_tokens_ + evicted_; }
  // Positions whose tokens are known, computed or not.
  int64_t n_positions() const { return n_tokens() - restarted_; }
  // Positions whose tokens have left.
  int64_t evicted_positions() const { return evicted_ - restarted_; }

  // Reserves memory for `n_live` tokens, so that Append need not allocate.
  void Reserve(int64_t n_live);
  void Append(int32_t id);
  void Append(std::span<const int32_t> ids) {
    for (const int32_t id : ids) Append(id);
  }
  // Removes the newest token. Requires at least one token.
  void RemoveLast();
  // Notes that the next token begins a turn. Without turns no turn can leave.
  void BeginTurn() { turns_.push_back(n_tokens()); }
  // Turns that have a token left, and the newest one, which may be empty.
  int64_t n_turns() const { return static_cast<int64_t>(turns_.size()); }
  // Sets turns[i] to the number of tokens in the i + 1 oldest turns, without
  // the newest turn.
  void WholeTurns(std::vector<int64_t>& turns) const;

  // Evicts the oldest `n_tokens` behind the prefix. Requires that they exist.
  void Evict(int64_t n_tokens);
  // Starts the positions again at the beginning, because the remaining tokens
  // are computed again.
  void Restart() { restarted_ = evicted_; }

  // The index of the token at `position`.
  int64_t IndexAt(int64_t position) const {
    return position < prefix_tokens_ ? position : position + restarted_;
  }
  // The token at `position`. Requires one that has not left.
  int32_t TokenAt(int64_t position) const;
  // The first `n` tokens of the stream. Requires that no token has left.
  std::vector<int32_t> Oldest(int64_t n) const;
  // Sets `ids` to the newest `n` tokens that have not left, or to all if there
  // are fewer. The oldest comes first.
  void Newest(int64_t n, std::vector<int32_t>& ids) const;

 private:
  int64_t prefix_tokens_ = 0;
  std::vector<int32_t> prefix_;
  std::vector<int32_t> recent_;
  std::deque<int64_t> turns_;  // indices of their first tokens, ascending
  int64_t evicted_ = 0;
  int64_t restarted_ = 0;  // evicted_ at the last Restart
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_TOKEN_HISTORY_H_
