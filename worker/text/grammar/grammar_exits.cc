#include "worker/text/grammar/grammar_exits.h"

#include <algorithm>
#include <cstdint>

namespace plimsoll::worker {
namespace {

using Op = GrammarInstruction::Op;

constexpr uint32_t kTooDeep = Grammar::kMaxDepth + 1;

// Dijkstra's algorithm, as Knuth generalised it to grammars: an instruction is
// settled after all instructions on its best way. Source: Knuth, "A
// generalization of Dijkstra's algorithm", 1977.
class ExitFinder {
 public:
  ExitFinder(const std::vector<bool>& is_empty, Grammar& grammar)
      : program_(grammar.program),
        exits_(grammar.exits),
        found_(Grammar::kMaxDepth + 1),
        used_by_(grammar.program.size()) {
    exits_.resize(program_.size());
    for (uint32_t i = 0; i < program_.size(); ++i) {
      exits_[i] = {kTooDeep, i, is_empty[i]};
      if (i == Grammar::kReturnPc || program_[i].op == Op::kFail) continue;
      used_by_[program_[i].next].push_back(i);
      if (HasTwo(program_[i])) used_by_[program_[i].arg].push_back(i);
    }
  }

  void Find() {
    found_[0].push_back({Grammar::kReturnPc, Grammar::kReturnPc});
    for (uint32_t depth = 0; depth <= Grammar::kMaxDepth; ++depth) {
      // The list grows during this loop.
      for (size_t i = 0; i < found_[depth].size(); ++i) {
        const Found one = found_[depth][i];
        if (IsSettled(one.pc)) continue;
        exits_[one.pc].depth = depth;
        exits_[one.pc].nearest = one.nearest;
        for (const uint32_t user : used_by_[one.pc]) Reach(user, one.pc);
      }
    }
  }

 private:
  struct Found {
    uint32_t pc;
    uint32_t nearest;
  };

  static bool HasTwo(const GrammarInstruction& one) {
    return one.op == Op::kSplit || one.op == Op::kCall;
  }
  bool IsSettled(uint32_t pc) const { return exits_[pc].depth != kTooDeep; }
  void Add(uint32_t depth, Found one) {
    if (depth <= Grammar::kMaxDepth) found_[depth].push_back(one);
  }

  // Tells `pc` that `to`, to which it leads, is settled.
  void Reach(uint32_t pc, uint32_t to) {
    const GrammarInstruction& one = program_[pc];
    const GrammarExit& after = exits_[to];
    switch (one.op) {
      case Op::kReturn:
      case Op::kFail:
        return;
      case Op::kByte:
      case Op::kSet:
      case Op::kToken:
        return Add(after.depth, {pc, pc});
      case Op::kSplit:
        return Add(after.depth, {pc, after.nearest});
      case Op::kCall:
        break;
    }
    if (exits_[one.arg].is_empty) {
      // The rule is left out here.
      if (to == one.next) Add(after.depth, {pc, after.nearest});
    } else if (one.next == Grammar::kReturnPc) {
      // The called rule's end is also the end of this rule.
      if (to == one.arg) Add(after.depth, {pc, after.nearest});
    } else if (IsSettled(one.arg) && IsSettled(one.next)) {
      Add(std::max(exits_[one.arg].depth + 1, exits_[one.next].depth),
          {pc, pc});
    }
  }

  const std::vector<GrammarInstruction>& program_;
  std::vector<GrammarExit>& exits_;
  std::vector<std::vector<Found>> found_;  // by depth
  std::vector<std::vector<uint32_t>> used_by_;
};

}  // namespace

void FindExits(const std::vector<bool>& is_empty, Grammar& grammar) {
  ExitFinder(is_empty, grammar).Find();
}

}  // namespace plimsoll::worker
