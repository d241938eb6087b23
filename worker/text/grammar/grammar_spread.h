// Whether a grammar without recursion is at few places at once.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SPREAD_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SPREAD_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_state.h"

namespace plimsoll::worker {

// Places that a text may be at, all at once: a stack each.
inline constexpr int64_t kMaxPlaces = int64_t{GrammarState::kMaxReadings};
// Places there are, with repetitions in repetitions written out.
inline constexpr int64_t kMaxWrittenOut = 1 << 18;
// Steps of looking at every state there is, some 0.1 s.
inline constexpr int64_t kMaxProofWork = 1 << 20;

// That a text is never at more than kMaxPlaces of `grammar`, whose rules do not
// call themselves.
// Errors: kInvalidArgument if it may be, or if nobody can tell within the
// limits; what `stop` says.
absl::Status ProveBounded(const std::shared_ptr<const Grammar>& grammar,
                          StopCheck stop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GRAMMAR_SPREAD_H_
