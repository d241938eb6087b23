// Draws a token from a row of logits. The result does not depend on the rest of
// the batch.
#ifndef PLIMSOLL_WORKER_SAMPLING_SAMPLER_H_
#define PLIMSOLL_WORKER_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace plimsoll::worker {

// The filters are applied in this order: top-k, typical, top-p and min-p on the
// distribution at temperature 1, then the temperature, then the draw. The
// defaults are those of the command line.
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

// A uniform number in [0, 1) that depends on (seed, index) only, so that
// batching changes nothing. Source: Philox 4x32-10, a counter-based generator.
double UniformAt(uint64_t seed, uint64_t index);

struct LogitEntry {
  float logit;
  int32_t id;
};

// The order of tokens in a draw: larger logits first, then lower ids.
inline constexpr auto kByLogit = [](const LogitEntry& a, const LogitEntry& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

// Draws tokens. Keeps scratch between calls. Each engine has one, which only
// its step thread uses.
class Sampler {
 public:
  // Allocates room for a row of `vocab_size` logits, so that no draw allocates.
  explicit Sampler(int64_t vocab_size);

  // Draws the `index`-th generated token from a whole row `logits` [vocab].
  // Errors: kInternal "non-finite logits" if any logit is NaN or infinite.
  absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                                 const SamplingOptions& options,
                                 uint64_t index);

  // Draws like Sample, but allowed tokens only. Token i is allowed if bit
  // i % 64 of allowed[i / 64] is set. At least one must be.
  absl::StatusOr<int32_t> SampleAllowed(std::span<const float> logits,
                                        std::span<const uint64_t> allowed,
                                        const SamplingOptions& options,
                                        uint64_t index);

  // Draws from the row's largest logits alone, in descending order (ties:
  // lowest id first). The result is that of the whole row if options.top_k
  // keeps no more than these, or if the draw is greedy. Requires a non-empty
  // `sorted`.
  int32_t SampleSorted(std::span<const LogitEntry> sorted,
                       const SamplingOptions& options, uint64_t index);

  // Draws from the row's largest logits if options have no top_k. Returns the
  // whole row's result if top_p and min_p keep only tokens of `sorted`, and
  // nothing if they might keep others. `log_sum_exp` is the value of the whole
  // row, to kMassError.
  std::optional<int32_t> SampleLikeliest(std::span<const LogitEntry> sorted,
                                         double log_sum_exp,
                                         const SamplingOptions& options,
                                         uint64_t index);
  // The relative error that a backend's sum of exp(logit) may have.
  static constexpr double kMassError = 1e-4;
  // Whether SampleLikeliest can return a result with these options.
  static bool MayDecide(const SamplingOptions& options);

  // Draws without filters, so that any token may be drawn. Returns the whole
  // row's result if it is one of `sorted`, and nothing if it may be another
  // token. `mass` is the sum of exp((logit - largest) / temperature) over the
  // whole row, to kMassError. Requires IsPlain.
  static std::optional<int32_t> SamplePlain(std::span<const LogitEntry> sorted,
                                            double mass,
                                            const SamplingOptions& options,
                                            uint64_t index);
  // Whether the draw is from all tokens and not greedy.
  static bool IsPlain(const SamplingOptions& options);

 private:
  // Sorts as many of `entries_` as the draw needs, and draws from them. There
  // is at least one.
  absl::StatusOr<int32_t> SampleEntries(const SamplingOptions& options,
                                        uint64_t index);
  // Draws from `entries_`. There is at least one.
  int32_t Draw(const SamplingOptions& options, uint64_t index);
  // Draws from the first `n` of `entries_`, without applying a filter.
  int32_t DrawAmong(size_t n, const SamplingOptions& options, uint64_t index);
  // Draws from `entries_` in any order, without top_k and typical_p. Sorts only
  // as many as the draw needs.
  int32_t DrawInSteps(const SamplingOptions& options, uint64_t index);
  // Removes the entries that typical sampling drops from `entries_`. Keeps the
  // order.
  void KeepTypical(float typical_p);

  // At most 20 bytes for each token. The plan counts them
  // (planner/layout/runtime_profile).
  std::vector<LogitEntry> entries_;  // in descending order
  std::vector<double> weights_;
  std::vector<uint32_t> order_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SAMPLING_SAMPLER_H_
