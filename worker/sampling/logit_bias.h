// What a request changes about a row of logits before a token is drawn: biases
// of single tokens and penalties on those that came before.
#ifndef PLIMSOLL_WORKER_SAMPLING_LOGIT_BIAS_H_
#define PLIMSOLL_WORKER_SAMPLING_LOGIT_BIAS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kernels/backend.h"

namespace plimsoll::worker {

struct LogitBias {
  int32_t id;
  float bias;  // added to the token's logit
};

// The defaults change nothing. Log-probabilities that a reply reports are those
// of the distribution before.
struct LogitBiasOptions {
  // Limits; each has a test at it and one past it.
  static constexpr float kMinRepetition = 0.01f;
  static constexpr float kMaxRepetition = 100.0f;
  static constexpr float kMaxPenalty = 100.0f;
  static constexpr float kMaxBias = 1'000.0f;
  static constexpr int64_t kMaxLastTokens = 8'192;
  static constexpr size_t kMaxBiases = 1'024;

  // A positive logit of a token that came before is divided by it, a negative
  // one multiplied. Source: Keskar et al., "CTRL" (2019), section 4.1.
  float repetition_penalty = 1.0f;
  // Subtracted from the logit of a token that came before, once and as often
  // as it came.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  // How many of the newest tokens, of prompt and reply, count as before; 0 =
  // none. They need not be in the context any more.
  int64_t penalty_last_tokens = 64;
  std::vector<LogitBias> biases = {};  // distinct ids

  bool HasPenalty() const {
    return penalty_last_tokens > 0 &&
           (repetition_penalty != 1.0f || presence_penalty != 0.0f ||
            frequency_penalty != 0.0f);
  }
  bool ChangesAnything() const { return HasPenalty() || !biases.empty(); }
};

// Errors: kInvalidArgument naming the field.
absl::Status ValidateLogitBias(const LogitBiasOptions& options,
                               int32_t vocab_size);

// The newest tokens of one stream and how often each came. Memory: `limit`
// tokens, all of it from the start.
class RecentTokens {
 public:
  // Begins with the last `limit` > 0 of `prompt`.
  RecentTokens(std::span<const int32_t> prompt, int64_t limit);

  void Add(int32_t id);
  const absl::flat_hash_map<int32_t, int32_t>& counts() const {
    return counts_;
  }

 private:
  std::vector<int32_t> ring_;
  size_t next_ = 0;
  absl::flat_hash_map<int32_t, int32_t> counts_;
};

// What the changes below make of one token's logit. They never turn the order
// of two logits of one token round.
float ChangedLogit(const LogitBiasOptions& options, const RecentTokens* recent,
                   int32_t id, float logit);

// The most that a logit of at most `logit` can be after the changes, of any
// token that is not among `ids`, which ascend.
float MostChanged(const LogitBiasOptions& options, const RecentTokens* recent,
                  float logit, std::span<const int32_t> ids);

// Changes `logits` [vocab] in place: biases first, then penalties on what
// `recent` counts, which may be null.
void ApplyLogitBias(const LogitBiasOptions& options, const RecentTokens* recent,
                    std::span<float> logits);

// Appends the same, for a device to do, to `changes`, which is empty.
void AppendLogitChanges(const LogitBiasOptions& options,
                        const RecentTokens* recent,
                        std::vector<kernels::LogitChange>& changes);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_LOGIT_BIAS_H_
