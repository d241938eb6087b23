// Finds the tokens of the vocabulary that may come next in a stream with a
// grammar.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_TOKEN_MASK_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_TOKEN_MASK_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_state.h"
#include "worker/text/grammar/mask_walk.h"
#include "worker/text/tokenizer/token_index.h"

namespace plimsoll::worker {

// The mask of one stream. A text token is allowed if its bytes may follow. A
// token that ends generation is allowed if the text so far is complete. A
// control token is allowed where the grammar names it. No other token is ever
// allowed. Not thread-safe.
class TokenMask {
 public:
  // At most this many masks are kept, by state. Inside of a string the state
  // seldom changes.
  static constexpr size_t kMaxMasks = 4;
  // Finding any allowed token may take a step's work this many times, if the
  // vocabulary has no tokens for the single bytes that may follow.
  static constexpr int kMaxSearches = 16;

  // `index` must outlive it.
  TokenMask(std::shared_ptr<const Grammar> grammar, const TokenIndex& index);

  // Call it once before each token.
  void BeginStep();

  // True if token `id` may come next, as far as the work of a step can tell.
  // After GrammarState::kMaxStepWork the result is false, unless the state is
  // known already. A token of a single byte always gets its true answer.
  bool Allows(int32_t id);
  // Allows() for all tokens: token i is bit i % 64 of word i / 64. Valid until
  // the next call.
  // Errors: kInvalidArgument if no token is allowed.
  absl::StatusOr<std::span<const uint64_t>> AllowedTokens();
  // True if this step needed more than a step's work.
  bool is_exhausted() const { return state_.is_exhausted(); }

  // Moves the state past token `id`, which must be allowed.
  // Errors: kInternal if `id` is not allowed.
  absl::Status Accept(int32_t id);

  int64_t MemoryBytes() const;

 private:
  struct Mask {
    std::optional<GrammarState::State> state = {};  // absent: `bits` is unused
    int64_t last_use = 0;
    std::vector<uint64_t> bits;
  };
  // Words of a mask.
  size_t n_words() const {
    return (static_cast<size_t>(index_.tokenizer().vocab_size()) + 63) / 64;
  }
  const std::vector<int32_t>& grammar_tokens() const {
    return state_.grammar().tokens;
  }
  // The number of the token `id` in the grammar's tokens, if it may come next.
  std::optional<size_t> MarkThatMayFollow(int32_t id) const;

  const TokenIndex& index_;
  GrammarState state_;
  MaskWalk walk_;
  std::array<Mask, kMaxMasks> masks_;
  int64_t n_uses_ = 0;
  std::string bytes_;  // scratch of Allows
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_TOKEN_MASK_H_
