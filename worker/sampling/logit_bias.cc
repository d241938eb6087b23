#include "worker/sampling/logit_bias.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

absl::Status CheckRange(absl::string_view field, float value, float min,
                        float max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " must be in [", min, ", ", max, "], got ", value));
}

// What is subtracted from the logit of a token that came `count` times.
float PenaltyOf(const LogitBiasOptions& options, int32_t count) {
  return options.presence_penalty +
         options.frequency_penalty * static_cast<float>(count);
}

float Penalized(const LogitBiasOptions& options, int32_t count, float logit) {
  logit = logit > 0 ? logit / options.repetition_penalty
                    : logit * options.repetition_penalty;
  return logit - PenaltyOf(options, count);
}

// A token that never came keeps its logit.
float Penalized(const LogitBiasOptions& options, const RecentTokens* recent,
                int32_t id, float logit) {
  if (recent == nullptr) return logit;
  const auto found = recent->counts().find(id);
  if (found == recent->counts().end()) return logit;
  return Penalized(options, found->second, logit);
}

}  // namespace

void SuppressTokens(std::span<const int32_t> ids, LogitBiasOptions& options) {
  for (const int32_t id : ids) {
    const auto found = std::ranges::find(options.biases, id, &LogitBias::id);
    if (found == options.biases.end()) {
      options.biases.push_back({id, kSuppressingBias});
    } else {
      found->bias = kSuppressingBias;
    }
  }
}

absl::Status ValidateLogitBias(const LogitBiasOptions& options,
                               int32_t vocab_size) {
  using Limits = LogitBiasOptions;
  RETURN_IF_ERROR(CheckRange("repetition_penalty", options.repetition_penalty,
                             Limits::kMinRepetition, Limits::kMaxRepetition));
  RETURN_IF_ERROR(CheckRange("presence_penalty", options.presence_penalty,
                             -Limits::kMaxPenalty, Limits::kMaxPenalty));
  RETURN_IF_ERROR(CheckRange("frequency_penalty", options.frequency_penalty,
                             -Limits::kMaxPenalty, Limits::kMaxPenalty));
  if (options.penalty_last_tokens < 0 ||
      options.penalty_last_tokens > Limits::kMaxLastTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "penalty_last_tokens must be in [0, ", Limits::kMaxLastTokens,
        "], got ", options.penalty_last_tokens));
  }
  if (options.biases.size() > Limits::kMaxBiases) {
    return absl::InvalidArgumentError(
        absl::StrCat("logit_bias: at most ", Limits::kMaxBiases,
                     " are allowed, got ", options.biases.size()));
  }
  std::unordered_set<int32_t> seen;
  for (const LogitBias& one : options.biases) {
    if (one.id < 0 || one.id >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("logit_bias: ", one.id, " is outside the vocabulary of ",
                       vocab_size, " tokens"));
    }
    if (!seen.insert(one.id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("logit_bias: token ", one.id, " is named twice"));
    }
    RETURN_IF_ERROR(CheckRange("logit_bias", one.bias, -Limits::kMaxBias,
                               Limits::kMaxBias));
  }
  return absl::OkStatus();
}

RecentTokens::RecentTokens(std::span<const int32_t> prompt, int64_t limit)
    : ring_(static_cast<size_t>(limit), -1) {
  // The table has as much room again for erased entries, so that no later one
  // makes it grow. Small tables have other rules.
  counts_.reserve(std::max<size_t>(2 * ring_.size(), 32));
  const size_t n = std::min(prompt.size(), ring_.size());
  for (const int32_t id : prompt.last(n)) Add(id);
}

void RecentTokens::Add(int32_t id) {
  int32_t& oldest = ring_[next_];
  next_ = (next_ + 1) % ring_.size();
  if (const auto it = counts_.find(oldest); it != counts_.end()) {
    if (--it->second == 0) counts_.erase(it);
  }
  oldest = id;
  ++counts_[id];
}

float ChangedLogit(const LogitBiasOptions& options, const RecentTokens* recent,
                   int32_t id, float logit) {
  const auto bias = std::ranges::find(options.biases, id, &LogitBias::id);
  if (bias != options.biases.end()) logit += bias->bias;
  return Penalized(options, recent, id, logit);
}

float MostChanged(const LogitBiasOptions& options, const RecentTokens* recent,
                  float logit, std::span<const int32_t> ids) {
  float most = logit;
  for (const LogitBias& one : options.biases) {
    if (std::ranges::binary_search(ids, one.id)) continue;
    most = std::max(most, Penalized(options, recent, one.id, logit + one.bias));
  }
  // Most penalties only take away.
  if (recent == nullptr ||
      (options.repetition_penalty >= 1.0f && options.presence_penalty >= 0 &&
       options.frequency_penalty >= 0)) {
    return most;
  }
  for (const auto& [id, count] : recent->counts()) {
    if (std::ranges::binary_search(ids, id)) continue;
    most = std::max(most, Penalized(options, count, logit));
  }
  return most;
}

void ApplyLogitBias(const LogitBiasOptions& options, const RecentTokens* recent,
                    std::span<float> logits) {
  for (const LogitBias& one : options.biases) {
    logits[static_cast<size_t>(one.id)] += one.bias;
  }
  if (recent == nullptr) return;
  for (const auto& [id, count] : recent->counts()) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = Penalized(options, count, logit);
  }
}

void AppendLogitChanges(const LogitBiasOptions& options,
                        const RecentTokens* recent,
                        std::vector<kernels::LogitChange>& changes) {
  using kernels::LogitChange;
  for (const LogitBias& one : options.biases) {
    changes.push_back({.id = one.id, .bias = one.bias});
  }
  if (recent == nullptr) return;
  std::ranges::sort(changes, {}, &LogitChange::id);
  const auto n_biases = std::ssize(changes);
  for (const auto& [id, count] : recent->counts()) {
    const auto end = changes.begin() + n_biases;
    auto change = std::ranges::lower_bound(changes.begin(), end, id, {},
                                           &LogitChange::id);
    if (change == end || change->id != id) {
      change = changes.insert(changes.end(), {.id = id});
    }
    change->repetition = options.repetition_penalty;
    change->penalty = PenaltyOf(options, count);
  }
}

}  // namespace plimsoll::worker
