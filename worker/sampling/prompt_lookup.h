// Guesses the next tokens from earlier ones. Text that repeats itself needs no
// second model for that.
#ifndef PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_
#define PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_

#include <cstdint>
#include <span>

namespace plimsoll::worker {

// How many of the newest tokens are searched for a guess.
inline constexpr int64_t kLookupTokens = 8'192;
// At least kMinLookupMatch tokens must match before a guess. Up to
// kMaxLookupMatch are compared to choose among places.
inline constexpr int64_t kMinLookupMatch = 2;
inline constexpr int64_t kMaxLookupMatch = 8;

// Guesses at most `n` tokens: those that followed an earlier place in `tokens`
// where the text ended as it ends now. The place with the longest common end is
// taken, and the newest of several. Returns a part of `tokens`, empty if there
// is no such place within kLookupTokens. Takes time linear in `tokens`.
// Source: prompt lookup decoding (Saxena, 2023).
std::span<const int32_t> LookUpDraft(std::span<const int32_t> tokens,
                                     int64_t n);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_
