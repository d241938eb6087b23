// A row of logits becomes a token: greedy or drawn, the same whatever else is
// in the batch.
#ifndef PLIMSOLL_WORKER_SAMPLER_H_
#define PLIMSOLL_WORKER_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::worker {

// The chain is top-k, top-p, min-p on the distribution at temperature 1, then
// temperature, then the draw. Defaults are those of the command line.
struct SamplingOptions {
  static constexpr float kMaxTemperature = 100.0f;

  float temperature = 0.8f;  // 0 = greedy: the largest logit, lowest id first
  int32_t top_k = 40;        // 0 = off
  float top_p = 0.95f;       // 1 = off
  float min_p = 0.05f;       // 0 = off
  uint64_t seed = 0;
};

// Errors: kInvalidArgument naming the field (NaN, negative, out of range).
absl::Status ValidateSampling(const SamplingOptions& options);

// The uniform number in [0, 1) of (seed, index), from a counter-based generator
// (Philox 4x32-10): it depends on nothing else, so batching changes nothing.
double UniformAt(uint64_t seed, uint64_t index);

// Draws tokens from rows of logits. Keeps scratch between calls; one per
// engine, used by the step thread only.
class Sampler {
 public:
  // The token of `logits` [vocab] for the `index`-th generated token.
  // Errors: kInternal "non-finite logits" if any logit is NaN or infinite.
  absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                                 const SamplingOptions& options,
                                 uint64_t index);

 private:
  struct Entry {
    float logit;
    int32_t id;
  };
  std::vector<Entry> entries_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLER_H_
