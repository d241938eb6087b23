// The texts that a constrained stream may have: a context-free grammar over
// bytes and over the control tokens that it names, as a small program.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/text/plain_text.h"

namespace plimsoll::worker {

using ByteSet = std::bitset<256>;

// One step of a rule. A text matches the rule if it follows a path from the
// rule's entry to kReturn.
struct GrammarInstruction {
  enum class Op : uint8_t {
    kReturn,  // the rule is complete
    kFail,    // the rule can no longer complete
    kByte,    // the byte `arg`, then `next`
    kSet,     // a byte of set number `arg`, then `next`
    kToken,   // the token `arg` of the grammar's tokens, then `next`
    kSplit,   // `next` or `arg`
    kCall,    // the rule whose entry is `arg`, then `next`
  };
  Op op;
  uint32_t next;
  uint32_t arg;
};

// The compiler writes repetitions out as copies. The present copy of a text
// tells how many more copies may follow. Among copies that may all be omitted,
// an earlier copy has a higher rank and allows everything that a later copy
// allows.
struct GrammarCopy {
  uint32_t chain;  // place in the last copy, or its own
  uint32_t rank;   // copies that may still follow
};

// The path from an instruction to the end of its rule that has the fewest open
// rules.
struct GrammarExit {
  // Rules that are open at once on the path, without this rule. More than
  // kMaxDepth if every path would pass that limit.
  uint32_t depth;
  // The place on the path before its first byte: an instruction that takes a
  // byte, a call that takes a byte and goes on after it, or the end of the
  // rule.
  uint32_t nearest;
  bool is_empty;  // the end can also be reached without a byte
};

// A control token in the source text of a grammar. The token has no bytes.
struct GrammarMark {
  std::string text;  // stands for the token
  int32_t id;
  bool is_free;  // may stand where any text may
};

// A step by a class of bytes that continues text of a kind.
struct PlainStep {
  uint8_t by_class;
  PlainText::Position after;
  friend bool operator==(const PlainStep&, const PlainStep&) = default;
};

// GrammarBuilder makes it and guarantees that every rule can end, that no rule
// begins with itself, and that kFail replaces all instructions from which the
// grammar cannot complete. Immutable, so thread-safe.
struct Grammar {
  // Limits for every notation; each has a test at it and one past it.
  static constexpr size_t kMaxSourceBytes = 64 << 10;
  static constexpr size_t kMaxInstructions = 1 << 16;
  static constexpr int64_t kMaxRepeat = 1 << 16;  // a count in {m,n}
  static constexpr int kMaxNesting = 64;          // groups in the source
  // The most rules that are open at once. Text that would nest deeper is not
  // allowed.
  static constexpr uint32_t kMaxDepth = 4'096;
  static constexpr size_t kMaxTokens = 64;

  // The instruction at kReturnPc is the only kReturn.
  static constexpr uint32_t kReturnPc = 0;

  std::vector<GrammarInstruction> program;
  std::vector<GrammarCopy> copies;  // [program]
  std::vector<GrammarExit> exits;   // [program]
  std::vector<ByteSet> sets;
  std::vector<int32_t> tokens;  // ids of control tokens
  uint32_t start = kReturnPc;
  // Bytes that all instructions treat alike are one class.
  std::array<uint8_t, 256> class_of = {};
  std::vector<uint8_t> class_bytes;  // one byte of each class
  // The steps that continue text, by its kind and position; empty where no text
  // of the kind is possible.
  std::array<std::array<std::vector<PlainStep>, PlainText::kPositions>,
             PlainText::kKinds>
      plain_steps;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_H_
