#include "worker/scheduling/prompt_budget.h"

#include <algorithm>
#include <bit>

namespace plimsoll::worker {
namespace {

// The weight of the newest measurement against all before it.
constexpr double kNewest = 0.5;
// One step changes the budget by at most this factor. Rows never exceed this.
constexpr double kMaxChange = 2.0;
constexpr double kMaxRows = 1e6;
// A duration of 0, which a coarse clock may show, counts as this.
constexpr double kLeastSeconds = 1e-9;

}  // namespace

size_t PromptBudget::DepthOf(int64_t position) {
  const auto doubled = static_cast<uint64_t>(position / kFirstPositions);
  return std::min<size_t>(std::bit_width(doubled), kDepths - 1);
}

int64_t PromptBudget::Rows(int64_t n_decoding, int64_t position) const {
  if (n_decoding == 0) return Scheduler::kNoLimit;
  const Decode& decode = decodes_.at(static_cast<size_t>(n_decoding));
  if (decode.seconds == 0 || decode.n_mixed >= kMixedSteps || excess_ > 0) {
    return 0;
  }
  return static_cast<int64_t>(rows_[DepthOf(position)].value_or(kFirstRows));
}

void PromptBudget::Record(int64_t n_decoding, int64_t n_prompt,
                          absl::Duration duration, int64_t position) {
  if (n_decoding == 0) return;
  Decode& decode = decodes_.at(static_cast<size_t>(n_decoding));
  const double seconds =
      std::max(absl::ToDoubleSeconds(duration), kLeastSeconds);
  if (n_prompt == 0) {
    const bool is_first = decode.seconds == 0;
    decode.seconds += (is_first ? 1 : kNewest) * (seconds - decode.seconds);
    decode.n_mixed = 0;
    Count(0, allowed_share_ * decode.seconds);
    return;
  }
  ++decode.n_mixed;
  // The rows of this step would have taken what was allowed, had there been
  // `factor` times as many. A step that was cut short says nothing of growth.
  const double allowed = allowed_share_ * decode.seconds;
  const double taken = std::max(seconds - decode.seconds, kLeastSeconds);
  Count(taken, allowed);
  const double factor = std::clamp(allowed / taken, 1 / kMaxChange, kMaxChange);
  const auto rows = static_cast<double>(n_prompt);
  std::optional<double>& kept = rows_[DepthOf(position)];
  const double before = kept.value_or(kFirstRows);
  if (factor > 1 && rows * factor < before) return;
  kept = std::clamp(before + kNewest * (rows * factor - before), 1.0, kMaxRows);
}

void PromptBudget::Count(double taken, double allowed) {
  excess_ =
      std::clamp(excess_ + taken - allowed, -allowed, kMaxPause * allowed);
}

}  // namespace plimsoll::worker
