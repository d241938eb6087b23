// Whether a grammar without recursion is at few places at once.
#ifndef PLIMSOLL_WORKER_GRAMMAR_SPREAD_H_
#define PLIMSOLL_WORKER_GRAMMAR_SPREAD_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "worker/grammar.h"

namespace plimsoll::worker {

// Places that a text may be at, all at once: each costs a look for every byte
// of a token that is tried.
inline constexpr int64_t kMaxPlaces = 512;
// Places there are, with repetitions in repetitions written out.
inline constexpr int64_t kMaxWrittenOut = 1 << 18;
// Steps of looking at every state there is, some 0.1 s.
inline constexpr int64_t kMaxProofWork = 1 << 20;

// Sets `is_bounded` of a grammar whose rules do not call themselves.
// Errors: kInvalidArgument if a text may be at more than kMaxPlaces at once, or
// if nobody can tell within the limits.
absl::Status ProveBounded(const std::shared_ptr<Grammar>& grammar);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAMMAR_SPREAD_H_
