#include "worker/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/sampling/non_finite.h"

namespace plimsoll::worker {
namespace {

// Philox 4x32-10. Source: Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (SC'11), constants of table 2.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  constexpr uint64_t kMul0 = 0xD2511F53;
  constexpr uint64_t kMul1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMul0 * counter[0];
    const uint64_t product1 = kMul1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

bool InUnit(float value) { return value >= 0.0f && value <= 1.0f; }

absl::Status CheckMass(absl::string_view field, float value) {
  if (InUnit(value) && value > 0.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " must be in (0, 1], got ", value));
}

// Entries that are put in order at first, of many; then so many times as many.
constexpr size_t kFirstSorted = 256;
constexpr size_t kSortedMore = 16;

// How many of a row's entries top_p and min_p leave, by the first ones in
// order, whose sum of exp(logit - largest) over the whole row is `total` to
// `error` of itself. Nothing if these do not show it.
std::optional<size_t> CountLeft(std::span<const LogitEntry> sorted,
                                double total, double error,
                                const SamplingOptions& options) {
  const double max = static_cast<double>(sorted.front().logit);
  const double wanted = static_cast<double>(options.top_p) * total;
  double sum = 0;
  bool may_end = false;  // top_p may leave no more, or may
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double weight = std::exp(static_cast<double>(sorted[i].logit) - max);
    // This one is below min_p, and so are all after it.
    if (i > 0 && weight < static_cast<double>(options.min_p)) return i;
    if (may_end) return std::nullopt;
    sum += weight;
    if (options.top_p >= 1.0f) continue;
    if (sum >= wanted * (1 + error)) return i + 1;
    may_end = sum >= wanted * (1 - error);
  }
  return std::nullopt;
}

}  // namespace

absl::Status ValidateSampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0.0f &&
        options.temperature <= SamplingOptions::kMaxTemperature)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "temperature must be in [0, ", SamplingOptions::kMaxTemperature,
        "], got ", options.temperature));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top_k must not be negative (0 turns it off), got ", options.top_k));
  }
  RETURN_IF_ERROR(CheckMass("typical_p", options.typical_p));
  RETURN_IF_ERROR(CheckMass("top_p", options.top_p));
  if (!InUnit(options.min_p)) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_p must be in [0, 1], got ", options.min_p));
  }
  return absl::OkStatus();
}

double UniformAt(uint64_t seed, uint64_t index) {
  const auto block = Philox(
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{block[0]} << 32 | block[1]) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

Sampler::Sampler(int64_t vocab_size) {
  const auto n = static_cast<size_t>(vocab_size);
  entries_.reserve(n);
  weights_.reserve(n);
  order_.reserve(n);
}

int32_t Sampler::SampleSorted(std::span<const LogitEntry> sorted,
                              const SamplingOptions& options, uint64_t index) {
  if (options.temperature == 0.0f) return sorted.front().id;
  if (options.top_k > 0) {
    sorted = sorted.first(
        std::min(sorted.size(), static_cast<size_t>(options.top_k)));
  }
  entries_.assign(sorted.begin(), sorted.end());
  return Draw(options, index);
}

bool Sampler::MayDecide(const SamplingOptions& options) {
  return options.top_k == 0 && options.typical_p >= 1.0f &&
         (options.top_p < 1.0f || options.min_p > 0.0f);
}

std::optional<int32_t> Sampler::SampleLikeliest(
    std::span<const LogitEntry> sorted, double log_sum_exp,
    const SamplingOptions& options, uint64_t index) {
  if (!MayDecide(options)) return std::nullopt;
  const double total =
      std::exp(log_sum_exp - static_cast<double>(sorted.front().logit));
  const auto n = CountLeft(sorted, total, kMassError, options);
  if (!n) return std::nullopt;
  entries_.assign(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(*n));
  return DrawAmong(*n, options, index);
}

bool Sampler::IsPlain(const SamplingOptions& options) {
  return options.temperature > 0.0f && options.top_k == 0 &&
         options.typical_p >= 1.0f && !MayDecide(options);
}

// The draw of DrawInSteps between the least and the most that the whole row's
// mass can be: what is left of both runs out at one token, or it is open which.
std::optional<int32_t> Sampler::SamplePlain(std::span<const LogitEntry> sorted,
                                            double mass,
                                            const SamplingOptions& options,
                                            uint64_t index) {
  const double max = static_cast<double>(sorted.front().logit);
  const double inverse = 1.0 / static_cast<double>(options.temperature);
  const double u = UniformAt(options.seed, index);
  double least = u * (mass * (1 - kMassError));
  double most = u * (mass * (1 + kMassError));
  for (const LogitEntry& entry : sorted) {
    const double weight =
        std::exp((static_cast<double>(entry.logit) - max) * inverse);
    least -= weight;
    most -= weight;
    if (most < 0) return entry.id;
    if (least < 0) return std::nullopt;
  }
  return std::nullopt;
}

int32_t Sampler::Draw(const SamplingOptions& options, uint64_t index) {
  if (options.typical_p < 1.0f) KeepTypical(options.typical_p);
  const double max = static_cast<double>(entries_.front().logit);
  double total = 0;
  for (const LogitEntry& entry : entries_) {
    total += std::exp(static_cast<double>(entry.logit) - max);
  }
  const auto n = CountLeft(entries_, total, /*error=*/0, options);
  return DrawAmong(n.value_or(entries_.size()), options, index);
}

int32_t Sampler::DrawAmong(size_t n, const SamplingOptions& options,
                           uint64_t index) {
  const double max = static_cast<double>(entries_.front().logit);
  double total = 0;
  const double inverse = 1.0 / static_cast<double>(options.temperature);
  weights_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    weights_[i] =
        std::exp((static_cast<double>(entries_[i].logit) - max) * inverse);
    total += weights_[i];
  }
  double left = UniformAt(options.seed, index) * total;
  for (size_t i = 0; i + 1 < n; ++i) {
    left -= weights_[i];
    if (left < 0) return entries_[i].id;
  }
  return entries_[n - 1].id;
}

void Sampler::KeepTypical(float typical_p) {
  const double max = static_cast<double>(entries_.front().logit);
  const auto relative = [&](size_t i) {
    return static_cast<double>(entries_[i].logit) - max;
  };
  weights_.resize(entries_.size());
  double total = 0;
  double moment = 0;  // moment of the logits, relative to the largest
  for (size_t i = 0; i < entries_.size(); ++i) {
    weights_[i] = std::exp(relative(i));
    total += weights_[i];
    moment += weights_[i] * relative(i);
  }
  // A token's surprise is log(total) - relative, and its expectation
  // log(total) - moment / total.
  const double expected = moment / total;
  const auto distance = [&](uint32_t i) {
    return std::abs(relative(i) - expected);
  };
  order_.resize(entries_.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(distance(a), a) < std::pair(distance(b), b);
  });
  size_t n = 0;
  double sum = 0;
  while (n < order_.size() && sum < static_cast<double>(typical_p) * total) {
    sum += weights_[order_[n++]];
  }
  std::sort(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(n));
  for (size_t i = 0; i < n; ++i) entries_[i] = entries_[order_[i]];
  entries_.resize(n);
}

absl::StatusOr<int32_t> Sampler::Sample(std::span<const float> logits,
                                        const SamplingOptions& options,
                                        uint64_t index) {
  entries_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    entries_.push_back({logits[i], static_cast<int32_t>(i)});
  }
  return SampleEntries(options, index);
}

absl::StatusOr<int32_t> Sampler::SampleAllowed(
    std::span<const float> logits, std::span<const uint64_t> allowed,
    const SamplingOptions& options, uint64_t index) {
  entries_.clear();
  for (size_t word = 0; word < allowed.size(); ++word) {
    for (uint64_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
      const size_t i = word * 64 + static_cast<size_t>(std::countr_zero(bits));
      if (i < logits.size()) {
        entries_.push_back({logits[i], static_cast<int32_t>(i)});
      }
    }
  }
  if (entries_.empty()) return absl::InternalError("no token is allowed");
  return SampleEntries(options, index);
}

absl::StatusOr<int32_t> Sampler::SampleEntries(const SamplingOptions& options,
                                               uint64_t index) {
  bool is_finite = true;
  for (const LogitEntry& entry : entries_) {
    is_finite &= std::isfinite(entry.logit);
  }
  if (!is_finite) return NonFiniteLogits("in a row that is drawn from");
  if (options.temperature > 0.0f && options.top_k == 0 &&
      options.typical_p >= 1.0f) {
    return DrawInSteps(options, index);
  }
  size_t n = entries_.size();
  if (options.temperature == 0.0f) n = 1;
  if (options.top_k > 0) n = std::min(n, static_cast<size_t>(options.top_k));
  std::partial_sort(entries_.begin(),
                    entries_.begin() + static_cast<ptrdiff_t>(n),
                    entries_.end(), kByLogit);
  entries_.resize(n);
  if (options.temperature == 0.0f) return entries_.front().id;
  return Draw(options, index);
}

int32_t Sampler::DrawInSteps(const SamplingOptions& options, uint64_t index) {
  const bool is_cut = MayDecide(options);
  const double inverse =
      is_cut ? 1.0 : 1.0 / static_cast<double>(options.temperature);
  const double max = static_cast<double>(
      std::min_element(entries_.begin(), entries_.end(), kByLogit)->logit);
  const auto weight = [&](const LogitEntry& entry) {
    return std::exp((static_cast<double>(entry.logit) - max) * inverse);
  };
  double total = 0;
  if (!is_cut || options.top_p < 1.0f) {
    for (const LogitEntry& entry : entries_) total += weight(entry);
  }
  double left = UniformAt(options.seed, index) * total;
  size_t n_sorted = 0;
  while (true) {
    const size_t n = std::min(std::max(kFirstSorted, n_sorted * kSortedMore),
                              entries_.size());
    std::partial_sort(entries_.begin() + static_cast<ptrdiff_t>(n_sorted),
                      entries_.begin() + static_cast<ptrdiff_t>(n),
                      entries_.end(), kByLogit);
    const bool is_all = n == entries_.size();
    if (is_cut) {
      const auto n_left =
          CountLeft(std::span(entries_).first(n), total, /*error=*/0, options);
      if (n_left || is_all) {
        return DrawAmong(n_left.value_or(n), options, index);
      }
    } else {
      for (size_t i = n_sorted; i < n; ++i) {
        left -= weight(entries_[i]);
        if (left < 0) return entries_[i].id;
      }
      if (is_all) return entries_.back().id;
    }
    n_sorted = n;
  }
}

}  // namespace plimsoll::worker
