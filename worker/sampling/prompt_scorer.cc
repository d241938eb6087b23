#include "worker/sampling/prompt_scorer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "base/status_macros.h"
#include "worker/sampling/non_finite.h"

namespace plimsoll::worker {

PromptScorer::PromptScorer(Model& model, kernels::Backend& backend,
                           int64_t n_at_once, int64_t vocab_size)
    : model_(model),
      backend_(backend),
      n_at_once_(n_at_once),
      vocab_size_(vocab_size),
      best_(static_cast<size_t>(n_at_once)),
      best_ids_(static_cast<size_t>(n_at_once)),
      log_sum_exp_(static_cast<size_t>(n_at_once)) {}

absl::Status PromptScorer::Score(const ScoredRows& scored,
                                 std::vector<PromptScore>& scores) {
  const auto at_once = static_cast<size_t>(n_at_once_);
  for (size_t begin = 0; begin < scored.rows.size(); begin += at_once) {
    const size_t n = std::min(at_once, scored.rows.size() - begin);
    RETURN_IF_ERROR(
        model_.ComputeLogits(std::span(scored.rows).subspan(begin, n)));
    RETURN_IF_ERROR(backend_.TopK({.logits = model_.Logits(),
                                   .n_rows = static_cast<int64_t>(n),
                                   .n = vocab_size_,
                                   .k = 1,
                                   .values = best_.data(),
                                   .ids = best_ids_.data(),
                                   .log_sum_exp = log_sum_exp_.data()}));
    for (size_t i = 0; i < n; ++i) {
      if (std::isnan(log_sum_exp_[i])) {
        return NonFiniteLogits("of the prompt");
      }
      ASSIGN_OR_RETURN(const float logit,
                       LogitAt(static_cast<int64_t>(i) * vocab_size_ +
                               scored.targets[begin + i]));
      const double logprob = static_cast<double>(logit) - log_sum_exp_[i];
      scores.push_back({.logprob = static_cast<float>(logprob),
                        .is_best = logit >= best_[i]});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<float> PromptScorer::LogitAt(int64_t index) {
  const float* const at = model_.Logits() + index;
  if (backend_.Device().is_host_memory) return *at;
  float logit = 0;
  // The copy is from it: nothing writes there.
  auto* const bytes =
      const_cast<std::byte*>(reinterpret_cast<const std::byte*>(at));
  RETURN_IF_ERROR(backend_.Download(
      {bytes, sizeof(float)}, std::as_writable_bytes(std::span(&logit, 1))));
  return logit;
}

}  // namespace plimsoll::worker
