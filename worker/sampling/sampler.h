// A row of logits becomes a token: greedy or drawn, the same whatever else is
// in the batch.
#ifndef PLIMSOLL_WORKER_SAMPLING_SAMPLER_H_
#define PLIMSOLL_WORKER_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::worker {

// The chain is top-k, typical, top-p, min-p on the distribution at temperature
// 1, then temperature, then the draw. Defaults are those of the command line.
struct SamplingOptions {
  static constexpr float kMaxTemperature = 100.0f;

  float temperature = 0.8f;  // 0 = greedy: the largest logit, lowest id first
  int32_t top_k = 40;        // 0 = off
  // Keeps the tokens whose surprise is nearest to the expected one, until
  // their probabilities reach it; 1 = off. Source: Meister et al., "Locally
  // typical sampling" (2022).
  float typical_p = 1.0f;
  float top_p = 0.95f;  // 1 = off
  float min_p = 0.05f;  // 0 = off
  uint64_t seed = 0;
};

// Errors: kInvalidArgument naming the field (NaN, negative, out of range).
absl::Status ValidateSampling(const SamplingOptions& options);

// The uniform number in [0, 1) of (seed, index), from a counter-based generator
// (Philox 4x32-10): it depends on nothing else, so batching changes nothing.
double UniformAt(uint64_t seed, uint64_t index);

struct LogitEntry {
  float logit;
  int32_t id;
};

// The order of a draw: larger logits first, of equal ones lower ids.
inline constexpr auto kByLogit = [](const LogitEntry& a, const LogitEntry& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

// Draws tokens. Keeps scratch between calls; one per engine, used by the step
// thread only.
class Sampler {
 public:
  // Has room for a row of `vocab_size` logits: no draw allocates.
  explicit Sampler(int64_t vocab_size);

  // The token of a whole row `logits` [vocab] as the `index`-th generated one.
  // Errors: kInternal "non-finite logits" if any logit is NaN or infinite.
  absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                                 const SamplingOptions& options,
                                 uint64_t index);

  // The same of the tokens that are allowed: token i is, if bit i % 64 of
  // allowed[i / 64] is set. One at least must be.
  absl::StatusOr<int32_t> SampleAllowed(std::span<const float> logits,
                                        std::span<const uint64_t> allowed,
                                        const SamplingOptions& options,
                                        uint64_t index);

  // The same from the largest logits alone, in descending order (ties: lowest
  // id first): the whole row's result where options.top_k keeps no more than
  // these, or where it is greedy. Requires a non-empty `sorted`.
  int32_t SampleSorted(std::span<const LogitEntry> sorted,
                       const SamplingOptions& options, uint64_t index);

  // The same without top_k: the whole row's result where top_p and min_p leave
  // none but some of these, and nothing where others might be left.
  // `log_sum_exp` is that of the whole row, to kMassError.
  std::optional<int32_t> SampleLikeliest(std::span<const LogitEntry> sorted,
                                         double log_sum_exp,
                                         const SamplingOptions& options,
                                         uint64_t index);
  // How wrong a backend's sum of exp(logit) may be, of itself.
  static constexpr double kMassError = 1e-4;
  // Whether it ever gives a result.
  static bool MayDecide(const SamplingOptions& options);

  // The same where nothing is left out, so that any token may be drawn: the
  // whole row's result where it is one of these, and nothing where it may be
  // another. `mass` is the sum of exp((logit - largest) / temperature) over the
  // whole row, to kMassError. Requires IsPlain.
  static std::optional<int32_t> SamplePlain(std::span<const LogitEntry> sorted,
                                            double mass,
                                            const SamplingOptions& options,
                                            uint64_t index);
  // Whether the draw is from all tokens, and not greedy.
  static bool IsPlain(const SamplingOptions& options);

 private:
  // Sorts what is needed of `entries_`, of which there is one at least, and
  // draws from them.
  absl::StatusOr<int32_t> SampleEntries(const SamplingOptions& options,
                                        uint64_t index);
  // Draws from `entries_`, of which there is one at least.
  int32_t Draw(const SamplingOptions& options, uint64_t index);
  // The same from the first `n` of them, which is all that was to be left out.
  int32_t DrawAmong(size_t n, const SamplingOptions& options, uint64_t index);
  // The same where they are in any order, without top_k and typical_p: puts
  // them in order only as far as the draw comes.
  int32_t DrawInParts(const SamplingOptions& options, uint64_t index);
  // Leaves what typical sampling keeps of `entries_`, in their order.
  void KeepTypical(float typical_p);

  // 20 bytes a token at most, which planner/layout/runtime_profile counts.
  std::vector<LogitEntry> entries_;  // in descending order
  std::vector<double> weights_;
  std::vector<uint32_t> order_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_SAMPLER_H_
