// Guesses the next tokens from earlier ones. For text that repeats itself, this
// needs no second model.
#ifndef PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_
#define PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_

#include <cstdint>
#include <span>

namespace plimsoll::worker {

// The number of newest tokens that are searched for a guess.
inline constexpr int64_t kLookupTokens = 8'192;
// At least kMinLookupMatch tokens must match before a guess. Up to
// kMaxLookupMatch are compared to choose among places.
inline constexpr int64_t kMinLookupMatch = 2;
inline constexpr int64_t kMaxLookupMatch = 8;

// Guesses at most `n` tokens: the tokens after an earlier place in `tokens`
// whose preceding text equals the present end of the text. Of several places,
// the one with the longest common text is used, and among equals the newest.
// Returns a part of `tokens`, empty if there is no such place within
// kLookupTokens. Takes time linear in `tokens`.
// Source: prompt lookup decoding (Saxena, 2023).
std::span<const int32_t> LookUpDraft(std::span<const int32_t> tokens,
                                     int64_t n);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_PROMPT_LOOKUP_H_
