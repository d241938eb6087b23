// The patterns of a JSON schema, each parsed once.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_PATTERN_POOL_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_PATTERN_POOL_H_

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/grammar/char_automaton.h"
#include "worker/text/grammar/regex_tree.h"

namespace plimsoll::worker {

struct SchemaPattern {
  size_t number;
  RegexNode tree;
  RegexMatch match;
  bool has_inner_anchors;  // has anchors that are not at the ends
  // The next fields decide whether a text matches; they are made at their first
  // use.
  std::unique_ptr<const CharKinds> classes;
  std::optional<CharAutomaton> automaton = {};
};

// A condition: a text matches the pattern or, if negated, does not match it.
struct PatternUse {
  size_t pattern;
  bool is_negated;
  friend auto operator<=>(const PatternUse&, const PatternUse&) = default;
};

class PatternPool {
 public:
  // `stop` must outlive it.
  explicit PatternPool(StopCheck stop) : stop_(stop) {}

  // Adds the pattern `source` and returns its uses: a text must fit all of
  // them. A look-ahead at the front of the pattern is a separate use.
  // Errors: those of ParseRegex.
  absl::StatusOr<std::vector<PatternUse>> Add(const std::string& source,
                                              RegexMatch match);
  const SchemaPattern& At(size_t pattern) const { return *patterns_[pattern]; }

  // Whether `text` meets all `uses`. Errors: those of RegexAutomaton.
  absl::StatusOr<bool> Matches(const std::vector<PatternUse>& uses,
                               absl::string_view text);

 private:
  absl::StatusOr<size_t> AddPlain(const std::string& source, RegexMatch match);

  StopCheck stop_;
  std::vector<std::unique_ptr<SchemaPattern>> patterns_;
  std::map<std::pair<std::string, RegexMatch>, size_t> numbers_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_PATTERN_POOL_H_
