// The tokens of one stream that may still be computed, by their position in the
// cache.
#ifndef PLIMSOLL_WORKER_TOKEN_HISTORY_H_
#define PLIMSOLL_WORKER_TOKEN_HISTORY_H_

#include <cstdint>
#include <vector>

#include "worker/roll_plan.h"

namespace plimsoll::worker {

// Memory: the prompt, which it only looks at, and at most one context of
// generated tokens, taken at once and only where they may be computed again.
// An index counts all tokens of the stream; a position is where the cache keeps
// one: recomputing starts the positions over, shifting does not touch them.
class TokenHistory {
 public:
  // `prompt` outlives it.
  TokenHistory(const std::vector<int32_t>& prompt, const RollPlan& roll)
      : prompt_(prompt),
        roll_(roll),
        recent_(roll.method == RollMethod::kRecompute
                    ? static_cast<size_t>(roll.capacity) + 1
                    : 1) {}

  const RollPlan& roll() const { return roll_; }
  // Index of the oldest token after the prefix that has not left.
  int64_t first_recent() const { return roll_.prefix_tokens + evicted_; }
  // Positions that are known, computed or not.
  int64_t n_positions() const {
    return static_cast<int64_t>(prompt_.size()) + n_generated_ - restarted_;
  }

  // Takes the token generated last.
  void Add(int32_t id);
  // Notes that the oldest tokens have left.
  void Evict();

  // The index of the token at `position`.
  int64_t IndexAt(int64_t position) const {
    return position < roll_.prefix_tokens ? position : position + restarted_;
  }
  // The token at `position`. Requires one of the prompt, the newest generated
  // one or, where the method is kRecompute, any that has not left.
  int32_t TokenAt(int64_t position) const;

 private:
  const std::vector<int32_t>& prompt_;
  RollPlan roll_;
  int64_t n_generated_ = 0;
  int64_t evicted_ = 0;
  int64_t restarted_ = 0;        // evicted by recomputing: index less position
  std::vector<int32_t> pinned_;  // generated ones of the prefix
  std::vector<int32_t> recent_;  // the newest generated ones, a ring
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TOKEN_HISTORY_H_
