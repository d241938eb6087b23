// The texts that shapes of strings and numbers allow, as automata.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_TEXT_SETS_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_TEXT_SETS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "worker/text/grammar/char_automaton.h"
#include "worker/text/schema/shapes/pattern_pool.h"
#include "worker/text/schema/shapes/shape.h"

namespace plimsoll::worker {

struct TextSet {
  std::unique_ptr<const CharKinds> classes;
  CharAutomaton automaton;  // without states if no text is allowed
};

// Makes each set once. Not thread-safe.
class TextSets {
 public:
  // The most digits of a bounded number that is no integer. A double
  // distinguishes this many.
  static constexpr int kMaxNumberDigits = 15;

  // All must outlive it.
  TextSets(PatternPool& patterns, StopCheck stop)
      : patterns_(patterns), stop_(stop) {}

  // The strings, without quotes. Errors: those of RegexAutomaton.
  absl::StatusOr<const TextSet*> Of(const StringShape& shape);
  // The numbers in plain digits. Errors: kInvalidArgument if a bound or a
  // multiple has too many digits, or if the automaton would be too large.
  absl::StatusOr<const TextSet*> Of(const NumberShape& shape);

  // True if the shape is simple enough to be written without an automaton.
  bool IsPlain(const StringShape& shape) const;
  static bool IsPlain(const NumberShape& shape);

 private:
  PatternPool& patterns_;
  StopCheck stop_;
  std::vector<std::pair<StringShape, std::unique_ptr<TextSet>>> strings_;
  std::vector<std::pair<NumberShape, std::unique_ptr<TextSet>>> numbers_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_TEXT_SETS_H_
