#include "worker/text/grammar/plain_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::worker {

namespace {

std::vector<PlainStep> StepsAt(const Grammar& grammar, PlainText::Kind kind,
                               PlainText::Position at) {
  std::vector<PlainStep> steps;
  for (size_t byte = 0; byte < 256; ++byte) {
    const PlainText::Position after =
        PlainText::After(kind, at, static_cast<uint8_t>(byte));
    if (after == PlainText::kOutside) continue;
    const PlainStep step = {grammar.class_of[byte], after};
    if (std::ranges::find(steps, step) == steps.end()) steps.push_back(step);
  }
  steps.shrink_to_fit();
  return steps;
}

}  // namespace

void FindPlainSteps(Grammar& grammar) {
  for (size_t kind = 0; kind < PlainText::kKinds; ++kind) {
    for (size_t at = 0; at < PlainText::kPositions; ++at) {
      grammar.plain_steps[kind][at] =
          StepsAt(grammar, static_cast<PlainText::Kind>(kind),
                  static_cast<PlainText::Position>(at));
    }
  }
}

}  // namespace plimsoll::worker
