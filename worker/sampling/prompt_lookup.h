// Guesses of what comes next, from what came before: text that repeats itself
// needs no second model.
#ifndef PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_
#define PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_

#include <cstdint>
#include <span>

namespace plimsoll::worker {

// The newest tokens that are looked through for a guess.
inline constexpr int64_t kLookupTokens = 8'192;
// Tokens that must be the same before a guess, and how many more decide between
// places.
inline constexpr int64_t kMinLookupMatch = 2;
inline constexpr int64_t kMaxLookupMatch = 8;

// At most `n` tokens that followed an earlier place in `tokens` which ends as
// all of them do: of the places with the longest common end the newest one.
// Empty if there is none within kLookupTokens. A part of `tokens`; time linear
// in them. Source: prompt lookup decoding (Saxena, 2023).
std::span<const int32_t> LookUpDraft(std::span<const int32_t> tokens,
                                     int64_t n);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_
