// Whole texts against a grammar, and random texts out of one.
#ifndef PLIMSOLL_TESTS_WORKER_TEXT_GRAMMAR_GRAMMAR_MATCH_H_
#define PLIMSOLL_TESTS_WORKER_TEXT_GRAMMAR_GRAMMAR_MATCH_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_state.h"

namespace plimsoll::worker {

// Whether `text` is a whole text of the grammar.
inline bool Matches(const std::shared_ptr<const Grammar>& grammar,
                    absl::string_view text) {
  GrammarState state(grammar);
  return state.Advance(text) && state.Accepts(state.current());
}

// Whether `text` is the beginning of one.
inline bool MayBegin(const std::shared_ptr<const Grammar>& grammar,
                     absl::string_view text) {
  return GrammarState(grammar).Advance(text);
}

// A text of the grammar, byte by byte at random; nothing if it has more than
// `max_bytes`.
inline std::optional<std::string> RandomText(
    const std::shared_ptr<const Grammar>& grammar, std::mt19937& random,
    size_t max_bytes) {
  GrammarState state(grammar);
  std::string text;
  while (true) {
    state.BeginStep();
    std::vector<char> bytes;
    for (const uint8_t byte : grammar->class_bytes) {
      if (state.MayFollow(state.current(), byte)) {
        bytes.push_back(static_cast<char>(byte));
      }
    }
    const bool may_end = state.Accepts(state.current());
    if (bytes.empty() || (may_end && random() % 4 == 0)) return text;
    if (text.size() == max_bytes) return std::nullopt;
    text.push_back(bytes[random() % bytes.size()]);
    state.Advance(absl::string_view(text).substr(text.size() - 1));
  }
}

// True if the grammar takes the symbols, and a whole text ends with them. A
// negative one, -1 - N, is the token N of the grammar's tokens.
inline bool Takes(const std::shared_ptr<const Grammar>& grammar,
                  const std::vector<int>& symbols) {
  GrammarState state(grammar);
  for (const int one : symbols) {
    const auto byte = static_cast<char>(one);
    const bool fits = one < 0
                          ? state.AdvanceToken(static_cast<size_t>(-1 - one))
                          : state.Advance({&byte, 1});
    if (!fits) return false;
  }
  return state.Accepts(state.current());
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_TEXT_GRAMMAR_GRAMMAR_MATCH_H_
