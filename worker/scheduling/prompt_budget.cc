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

int64_t PromptBudget::Rows(int64_t n_decoding, const PromptPlace& place) const {
  if (n_decoding == 0) return Scheduler::kNoLimit;
  const Decode& decode = decodes_.at(static_cast<size_t>(n_decoding));
  if (decode.seconds == 0 || decode.n_mixed >= kMixedSteps) return 0;
  if (of_step_.excess > 0) return 0;
  if (place.is_beside_others && beside_others_.excess > 0) return 0;
  return static_cast<int64_t>(
      rows_[DepthOf(place.position)].value_or(kFirstRows));
}

void PromptBudget::Record(int64_t n_decoding, int64_t n_prompt,
                          absl::Duration duration, const PromptPlace& place) {
  if (n_decoding == 0) return;
  Decode& decode = decodes_.at(static_cast<size_t>(n_decoding));
  const double seconds =
      std::max(absl::ToDoubleSeconds(duration), kLeastSeconds);
  if (n_prompt == 0) {
    const bool is_first = decode.seconds == 0;
    decode.seconds += (is_first ? 1 : kNewest) * (seconds - decode.seconds);
    decode.n_mixed = 0;
    Count(0, decode.seconds, /*is_beside_others=*/false);
    return;
  }
  ++decode.n_mixed;
  // The rows of this step would have taken what was allowed, had there been
  // `factor` times as many. A step that was cut short says nothing of growth.
  const double allowed = of_step_.allowed * decode.seconds;
  const double taken = std::max(seconds - decode.seconds, kLeastSeconds);
  Count(taken, decode.seconds, place.is_beside_others);
  const double factor = std::clamp(allowed / taken, 1 / kMaxChange, kMaxChange);
  const auto rows = static_cast<double>(n_prompt);
  std::optional<double>& kept = rows_[DepthOf(place.position)];
  const double before = kept.value_or(kFirstRows);
  if (factor > 1 && rows * factor < before) return;
  kept = std::clamp(before + kNewest * (rows * factor - before), 1.0, kMaxRows);
}

void PromptBudget::Count(double taken, double decode, bool is_beside_others) {
  of_step_.Count(taken, decode, of_step_.allowed * decode);
  beside_others_.Count(is_beside_others ? taken : 0, decode, kBurst);
}

void PromptBudget::Account::Count(double taken, double decode,
                                  double most_left) {
  const double may_take = allowed * decode;
  excess =
      std::clamp(excess + taken - may_take, -most_left, kMaxPause * may_take);
}

}  // namespace plimsoll::worker
