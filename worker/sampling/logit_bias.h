// A request's changes of a row of logits before a token is drawn: biases on
// single tokens, and penalties on earlier tokens.
#ifndef PLIMSOLL_WORKER_SAMPLING_LOGIT_BIAS_H_
#define PLIMSOLL_WORKER_SAMPLING_LOGIT_BIAS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/hash_map.h"
#include "kernels/backend.h"

namespace plimsoll::worker {

struct LogitBias {
  int32_t id;
  float bias;  // added to the token's logit
};

// The defaults change nothing. A reply's log-probabilities describe the
// distribution before these changes.
struct LogitBiasOptions {
  // Limits. Each has a test at the limit and one past it.
  static constexpr float kMinRepetition = 0.01f;
  static constexpr float kMaxRepetition = 100.0f;
  static constexpr float kMaxPenalty = 100.0f;
  static constexpr float kMaxBias = 1'000.0f;
  static constexpr int64_t kMaxLastTokens = 8'192;
  static constexpr size_t kMaxBiases = 1'024;

  // Divides positive logits of earlier tokens, and multiplies negative ones.
  // Source: Keskar et al., "CTRL" (2019), section 4.1.
  float repetition_penalty = 1.0f;
  // Both are subtracted from the logit of an earlier token: presence_penalty
  // once, frequency_penalty once for each occurrence.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  // The number of newest tokens of prompt and reply that count as earlier
  // tokens; 0 = none. They may have left the context.
  int64_t penalty_last_tokens = 64;
  std::vector<LogitBias> biases = {};  // distinct ids

  bool HasPenalty() const {
    return penalty_last_tokens > 0 &&
           (repetition_penalty != 1.0f || presence_penalty != 0.0f ||
            frequency_penalty != 0.0f);
  }
  bool ChangesAnything() const { return HasPenalty() || !biases.empty(); }
};

// A bias that has the effect of minus infinity. It is finite because a draw
// refuses logits that are not finite.
inline constexpr float kSuppressingBias = -1e30f;

// Gives the tokens this bias, in place of any other bias.
void SuppressTokens(std::span<const int32_t> ids, LogitBiasOptions& options);

// Errors: kInvalidArgument naming the field.
absl::Status ValidateLogitBias(const LogitBiasOptions& options,
                               int32_t vocab_size);

// The newest tokens of one stream, and how often each came. All its memory, for
// `limit` tokens, is allocated at the start.
class RecentTokens {
 public:
  // Begins with the last `limit` tokens of `prompt`. `limit` is above 0.
  RecentTokens(std::span<const int32_t> prompt, int64_t limit);

  void Add(int32_t id);
  const HashMap<int32_t, int32_t>& counts() const { return counts_; }

 private:
  std::vector<int32_t> ring_;
  size_t next_ = 0;
  HashMap<int32_t, int32_t> counts_;
};

// One token's logit after the changes. The result never decreases with the
// token's logit.
float ChangedLogit(const LogitBiasOptions& options, const RecentTokens* recent,
                   int32_t id, float logit);

// The largest logit that a token outside `ids` can have after the changes, if
// it was at most `logit` before. `ids` ascend.
float MostChanged(const LogitBiasOptions& options, const RecentTokens* recent,
                  float logit, std::span<const int32_t> ids);

// Changes `logits` [vocab] in place: biases first, then penalties on the tokens
// that `recent` counts. `recent` may be null.
void ApplyLogitBias(const LogitBiasOptions& options, const RecentTokens* recent,
                    std::span<float> logits);

// Appends the changes to `changes`, which is empty, for a device to apply.
void AppendLogitChanges(const LogitBiasOptions& options,
                        const RecentTokens* recent,
                        std::vector<kernels::LogitChange>& changes);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_LOGIT_BIAS_H_
