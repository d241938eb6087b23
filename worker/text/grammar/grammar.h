// What a constrained stream may say: a context-free grammar over bytes, as a
// small program.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

namespace plimsoll::worker {

using ByteSet = std::bitset<256>;

// One step of a rule; what is true of every text of the rule follows the
// instructions from its entry to kReturn.
struct GrammarInstruction {
  enum class Op : uint8_t {
    kReturn,  // the rule is complete
    kFail,    // from here on it never is
    kByte,    // the byte `arg`, then `next`
    kSet,     // a byte of the set of number `arg`, then `next`
    kSplit,   // `next` or `arg`
    kCall,    // the rule whose entry is `arg`, then `next`
  };
  Op op;
  uint32_t next;
  uint32_t arg;
};

// A repetition is written out, and what is left of it is told by which copy one
// stands in. Of copies that may all be left out, an earlier one, of a higher
// rank, allows all that a later one does.
struct GrammarCopy {
  uint32_t chain;  // the instruction's place in the last copy, or its own
  uint32_t rank;   // copies that may still follow
};

// How an instruction's rule is left from there with the fewest rules open.
struct GrammarExit {
  // Rules that are open at once on the way to the rule's end, beside it; more
  // than kMaxDepth where that is more than there may be.
  uint32_t depth;
  // The instruction that the way comes to before any byte: one of a byte, a
  // call that takes a byte and goes on after it, or the end of the rule.
  uint32_t nearest;
  bool is_empty;  // whether the rule's end is reached without a byte, too
};

// Made by GrammarBuilder, which sees to it that every rule can end, none begins
// with itself, and what leads nowhere is kFail. Immutable, so thread-safe.
struct Grammar {
  // Limits, whatever it was written as; each has a test at it and one past it.
  static constexpr size_t kMaxSourceBytes = 64 << 10;
  static constexpr size_t kMaxInstructions = 1 << 16;
  static constexpr int64_t kMaxRepeat = 1 << 16;  // a count in {m,n}
  static constexpr int kMaxNesting = 64;          // of groups in the source
  // Rules open at once. What would nest deeper may not follow.
  static constexpr uint32_t kMaxDepth = 4'096;

  // The instruction at kReturnPc is the only kReturn.
  static constexpr uint32_t kReturnPc = 0;

  std::vector<GrammarInstruction> program;
  std::vector<GrammarCopy> copies;  // [program]
  std::vector<GrammarExit> exits;   // [program]
  std::vector<ByteSet> sets;
  uint32_t start = kReturnPc;
  // Bytes that no instruction tells apart are of one class.
  std::array<uint8_t, 256> class_of = {};
  std::vector<uint8_t> class_bytes;  // one byte of each class
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_H_
