// Proves that a text can be at few places of a grammar at once.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SPREAD_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SPREAD_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_state.h"

namespace plimsoll::worker {

// A text may be at this many places at once. Each place is a stack.
inline constexpr int64_t kMaxPlaces = int64_t{GrammarState::kMaxReadings};
// A grammar may have this many places, with nested repetitions written out.
inline constexpr int64_t kMaxWrittenOut = 1 << 18;
// The most steps for looking at all states, about 0.1 s.
inline constexpr int64_t kMaxProofWork = 1 << 20;

// Proves that a text is never at more than kMaxPlaces places of `grammar`,
// whose rules do not call themselves.
// Errors: kInvalidArgument if it may be at more places, or if the limits do not
// suffice for a proof; those of `stop`.
absl::Status ProveBounded(const std::shared_ptr<const Grammar>& grammar,
                          StopCheck stop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SPREAD_H_
