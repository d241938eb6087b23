// Finite automata over code points: sets of texts that can be combined.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_CHAR_AUTOMATON_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_CHAR_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/grammar_builder.h"

namespace plimsoll::worker {

// Divides code points into classes, so that each of some given sets has all or
// none of a class.
class CharKinds {
 public:
  explicit CharKinds(const std::vector<CodePoints>& sets);

  size_t size() const { return members_.size(); }
  const CodePoints& Members(size_t one) const { return members_[one]; }
  size_t Of(uint32_t code_point) const;
  // Tells for each class whether it lies in `set`, which is one of the given
  // sets.
  std::vector<bool> Within(const CodePoints& set) const;

 private:
  std::vector<uint32_t> firsts_;  // where intervals begin, ascending
  std::vector<size_t> numbers_;   // the intervals' classes
  std::vector<CodePoints> members_;
};

// A deterministic automaton. State 0 is the first one.
struct CharAutomaton {
  static constexpr int32_t kDead = -1;
  // The most states of an automaton, and the most steps to make it.
  static constexpr size_t kMaxStates = 8'192;
  static constexpr int64_t kMaxWork = 1 << 25;

  size_t n_classes = 0;
  std::vector<int32_t> next = {};  // [states, classes]
  std::vector<bool> accepts = {};  // [states]

  size_t size() const { return accepts.size(); }
  bool is_empty() const { return accepts.empty(); }
  // Adds a state without successors.
  int32_t AddState(bool is_accepting);
  int32_t& Next(int32_t state, size_t one) {
    return next[static_cast<size_t>(state) * n_classes + one];
  }
  int32_t Next(int32_t state, size_t one) const {
    return next[static_cast<size_t>(state) * n_classes + one];
  }
};

// Whether `text` (valid UTF-8) is in the automaton's set.
bool IsIn(absl::string_view text, const CharAutomaton& automaton,
          const CharKinds& classes);

// The texts among `words` (valid UTF-8).
CharAutomaton WordsAutomaton(const std::vector<std::string>& words,
                             const CharKinds& classes);
// The texts of `min` to `max` code points; `max` may be unlimited.
// Errors: kInvalidArgument if the automaton would pass its limits.
absl::StatusOr<CharAutomaton> LengthAutomaton(int64_t min, int64_t max,
                                              const CharKinds& classes);

struct AutomatonOperand {
  CharAutomaton automaton = {};
  bool is_negated = false;
};
// The texts that are in all operands and in none of the negated ones. Every
// state of the result leads to an accepting one; an empty set has no states.
// Errors: kInvalidArgument if it would pass its limits; those of `stop`.
absl::StatusOr<CharAutomaton> Intersect(
    const std::vector<AutomatonOperand>& operands, size_t n_classes,
    StopCheck stop);

// Removes the states that lead to no accepting state, and merges states that
// allow the same texts.
CharAutomaton Reduced(const CharAutomaton& automaton);

// Writes a set that is not empty into `builder`. `chars` writes one code point.
GrammarBuilder::Expr WriteAutomaton(
    const CharAutomaton& automaton, const CharKinds& classes,
    const std::function<GrammarBuilder::Expr(const CodePoints&)>& chars,
    GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_CHAR_AUTOMATON_H_
