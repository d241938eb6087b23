// Builds grammars from expressions. All notations of constraints use it.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_BUILDER_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_BUILDER_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::worker {

// The builder keeps errors until Build, so that callers can write expressions
// without checks. Build may be called once.
class GrammarBuilder {
 public:
  // `stop` must outlive it.
  explicit GrammarBuilder(StopCheck stop = NeverStop)
      : nodes_(1, Node{.kind = Kind::kLiteral}), stop_(stop) {}

  // An expression of this builder.
  struct Expr {
    int32_t index;
  };
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  static constexpr int kMaxDepth = 512;  // depth of nested expressions
  static constexpr size_t kMaxExpressions = 1 << 18;

  // A byte, or kFirstMark and the number of a mark.
  using Symbol = size_t;
  static constexpr Symbol kFirstMark = 256;

  // Makes the text of a mark stand for its token in the texts of Marked and
  // SymbolsOf.
  void AddMark(const GrammarMark& mark);
  // A text as bytes and marks.
  std::vector<Symbol> SymbolsOf(absl::string_view text) const;
  size_t n_symbols() const { return kFirstMark + marks_.size(); }
  // True if the symbol may stand where any text may.
  bool IsFree(Symbol symbol) const {
    return symbol < kFirstMark || marks_[symbol - kFirstMark].is_free;
  }

  Expr Literal(absl::string_view bytes);  // may be empty
  Expr Marked(absl::string_view text);    // bytes and marks; may be empty
  Expr Chars(const CodePoints& set);      // one code point, as UTF-8
  Expr AnyOf(const std::vector<Symbol>& symbols);  // one of them
  Expr Sequence(std::vector<Expr> parts);
  Expr Choice(std::vector<Expr> choices);  // an empty one matches nothing
  // `part` repeated from `min` to `max` times.
  Expr Repeat(Expr part, int64_t min, int64_t max);
  Expr Optional(Expr part) { return Repeat(part, 0, 1); }

  // Makes a rule that may be used before it is defined, and in its own
  // definition. Errors show `name`.
  int32_t NewRule(absl::string_view name);
  void Define(int32_t rule, Expr definition);
  Expr Rule(int32_t rule);

  // Builds the grammar of `root`.
  // Errors: kInvalidArgument naming a rule that is not defined, can never end
  // or begins with itself, or naming the exceeded limit; those of `stop`.
  absl::StatusOr<std::shared_ptr<Grammar>> Build(int32_t root);

  // False after an error; later expressions are ignored.
  bool ok() const { return status_.ok(); }

 private:
  enum class Kind : uint8_t {
    kLiteral,
    kWords,  // one of these words
    kSet,
    kToken,
    kSequence,
    kChoice,
    kRepeat,
    kRule
  };
  struct Node {
    Kind kind;
    int depth = 1;
    uint32_t arg = 0;  // set, token or rule
    int64_t min = 0;
    int64_t max = 0;
    std::string literal = {};
    std::vector<Expr> parts = {};
    std::vector<std::string> words = {};
  };
  struct RuleInfo {
    std::string name;
    Expr definition = {-1};
    uint32_t entry = 0;
    bool is_emitted = false;
  };

  const Node& At(Expr expr) const {
    return nodes_[static_cast<size_t>(expr.index)];
  }
  Expr Add(Node node);
  Expr Set(const ByteSet& set);
  // An expression that matches one of `sequences`.
  Expr OneOf(const std::vector<ByteSequence>& sequences);
  // An expression that matches one of `words`, which are literals.
  Expr Words(std::vector<std::string> words);
  void Fail(absl::Status status);
  // Counts `n` more small steps, and calls `stop` after enough of them.
  void Spend(size_t n);
  // Appends instructions; returns the first one's place.
  uint32_t Emit(Expr expr, uint32_t next);
  uint32_t EmitRepeat(const Node& node, uint32_t next);
  uint32_t EmitLiteral(absl::string_view bytes, uint32_t next);
  // Emits the rest of `words` after their first `n_shared` bytes. `words` are
  // sorted and have these bytes in common.
  uint32_t EmitWords(std::span<const std::string> words, size_t n_shared,
                     uint32_t next);
  uint32_t Push(GrammarInstruction instruction);
  void EmitRules(int32_t root);
  // `can_end` is ReachEnd(false), `is_empty` is ReachEnd(true).
  absl::Status CheckRules(int32_t root, const std::vector<bool>& can_end,
                          const std::vector<bool>& is_empty) const;
  absl::Status CheckLeftRecursion(const std::vector<bool>& is_empty) const;
  // Which instructions reach their rule's end; with `only_empty`, without a
  // byte.
  std::vector<bool> ReachEnd(bool only_empty) const;
  void ClassifyBytes();

  std::vector<Node> nodes_;  // after an error, all expressions are the first
  std::vector<RuleInfo> rules_;
  std::vector<GrammarMark> marks_;  // in the order of the grammar's tokens
  std::vector<int32_t> to_emit_;
  std::vector<uint32_t> calls_;  // kCall instructions
  std::unordered_map<ByteSet, uint32_t> set_numbers_;
  Grammar grammar_;
  absl::Status status_;
  StopCounter stop_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_BUILDER_H_
