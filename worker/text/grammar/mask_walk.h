// Finds all tokens of a vocabulary that may follow in a grammar.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_MASK_WALK_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_MASK_WALK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/text/grammar/grammar_state.h"
#include "worker/text/plain_text.h"
#include "worker/text/tokenizer/token_index.h"

namespace plimsoll::worker {

// It visits the tokens in the order of their bytes. If the bytes so far cannot
// follow, it skips all tokens that begin with them. If any text of a kind may
// follow, it does not look at the tokens of that kind one by one. Not
// thread-safe.
class MaskWalk {
 public:
  // `index` must outlive it.
  explicit MaskWalk(const TokenIndex& index);

  // Sets the bits of all text tokens that are known to be allowed in the
  // current state of `grammar`, and clears all others. Returns true if any
  // token is allowed.
  bool Fill(GrammarState& grammar, std::span<uint64_t> bits);

  int64_t MemoryBytes() const;

 private:
  using State = GrammarState::State;
  using Kind = PlainText::Kind;
  using Range = PlainTokens::Range;
  // A range of a list.
  struct Part {
    const TokenList& list;
    Range range;
  };
  // The state after some first bytes of a token.
  struct Node {
    State state;
    std::array<PlainText::Position, PlainText::kKinds> at;  // by kind
  };

  Node NodeAfter(GrammarState& grammar, const Node& node, uint8_t byte) const;
  // True if any text of the kind may follow, up to the length of its longest
  // token.
  bool IsFree(GrammarState& grammar, const Node& node, Kind kind) const;
  // A kind of which any text may follow. With `set`, all tokens of the kind
  // `set` are also of the returned kind.
  std::optional<Kind> FreeKind(GrammarState& grammar, const Node& node,
                               std::optional<Kind> set) const;
  // The kind that has the most tokens whose first byte may be followed by any
  // text of the kind; nothing if there is none.
  std::optional<Kind> MostlyFreeKind(GrammarState& grammar) const;
  // Fills the bits of the list's range. The call needs the bits of tokens of
  // the kind `set` to be 1, and all others to be 0.
  void WalkAll(GrammarState& grammar, Range range, std::optional<Kind> set,
               std::span<uint64_t> bits);
  // Sets the bits of tokens within a part of a list, and checks each of them.
  // The tokens have their first `n_known` bytes in common; nodes_ has the
  // states of these bytes.
  void WalkEach(GrammarState& grammar, const Part& part, uint32_t n_known,
                std::span<uint64_t> bits);
  // Sets the bits of the kind's tokens in a range of the list.
  void SetPlain(Kind kind, Range range, std::span<uint64_t> bits) const;
  // Clears these bits.
  void ClearPlain(Kind kind, Range range, std::span<uint64_t> bits) const;

  // The search for free text ends after this many consecutive places without
  // free text.
  static constexpr int kMaxBoundPlaces = 1'024;

  const TokenIndex& index_;
  int n_bound_places_ = 0;   // the newest places of the step, in a row
  std::vector<Node> nodes_;  // by bytes, from none to the longest token
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_MASK_WALK_H_
