// Which tokens of the vocabulary a stream with a grammar may say next.
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
#include "worker/text/tokenizer/token_index.h"

namespace plimsoll::worker {

// One stream's. A token of text is allowed where its bytes may follow, one that
// ends generation where what was said is complete, all others never. Not
// thread-safe.
class TokenMask {
 public:
  // Masks that are remembered, by state: inside a string it is mostly one.
  static constexpr size_t kMaxMasks = 4;
  // Times a step's work that finding any token may take, in a vocabulary that
  // has none for the single bytes that may follow.
  static constexpr int kMaxSearches = 16;

  // `index` must outlive it.
  TokenMask(std::shared_ptr<const Grammar> grammar, const TokenIndex& index);

  // Called before what follows, once for every token.
  void BeginStep();

  // Whether token `id` may come next, as far as a step's work tells: beyond
  // GrammarState::kMaxStepWork false, but for what is known by then. A token of
  // a single byte is always told.
  bool Allows(int32_t id);
  // The same for all: token i is bit i % 64 of word i / 64. Valid until the
  // next call.
  // Errors: kInvalidArgument if no token is allowed.
  absl::StatusOr<std::span<const uint64_t>> AllowedTokens();
  // Whether this step looked for more than a step's work finds.
  bool is_exhausted() const { return state_.is_exhausted(); }

  // Goes on after token `id`, which is allowed.
  // Errors: kInternal if it is not.
  absl::Status Accept(int32_t id);

  int64_t MemoryBytes() const;

 private:
  struct Mask {
    std::optional<GrammarState::State> state = {};  // nothing yet, or any more
    int64_t last_use = 0;
    std::vector<uint64_t> bits;
  };
  // Of a mask.
  size_t n_words() const {
    return (static_cast<size_t>(index_.tokenizer().vocab_size()) + 63) / 64;
  }
  // Of the beginnings of a token, the empty one and itself included.
  size_t n_depths() const { return size_t{index_.longest_token_bytes()} + 1; }
  // Sets the bits of text tokens that may follow the current state, all that
  // are told. Whether there are any.
  bool Walk(std::vector<uint64_t>& bits);

  const TokenIndex& index_;
  GrammarState state_;
  std::array<Mask, kMaxMasks> masks_;
  int64_t n_uses_ = 0;
  std::string bytes_;                        // scratch of Allows
  std::vector<GrammarState::State> states_;  // scratch of Walk, by depth
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_TOKEN_MASK_H_
