#include "planner/layout/auto_context.h"

#include <algorithm>
#include <limits>

#include "base/checked_math.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kPage = 64;
constexpr int64_t kShortPage = 16;
constexpr int64_t kNumShortPages = kPage / kShortPage;

}  // namespace

int64_t ContextGrid::size() const {
  if (step_ == ContextStep::kToken) return cap_;
  if (cap_ <= kPage) return CeilDiv(cap_, kShortPage);
  return kNumShortPages + CeilDiv(cap_, kPage) - 1;
}

int64_t ContextGrid::At(int64_t index) const {
  if (step_ == ContextStep::kToken) return index + 1;
  if (index < kNumShortPages) return std::min((index + 1) * kShortPage, cap_);
  const int64_t pages = index - kNumShortPages + 2;
  return std::min(CheckedMul(pages, kPage).value_or(cap_), cap_);
}

int64_t ContextGrid::Next(int64_t n_ctx) const {
  if (step_ == ContextStep::kToken) return n_ctx + 1;
  const int64_t step = n_ctx < kPage ? kShortPage : kPage;
  return std::min(CheckedAdd(n_ctx, step).value_or(cap_), cap_);
}

bool LeavesRoomForPages(const PlanInputs& inputs) {
  return inputs.profile().kind == "cpu" && !inputs.options().n_ctx;
}

int64_t WantedBytes(const PlanInputs& inputs, const RegionSizes& sizes) {
  if (!LeavesRoomForPages(inputs)) return sizes.total_bytes;
  return CheckedAdd(sizes.total_bytes, sizes.mapped_bytes)
      .value_or(std::numeric_limits<int64_t>::max());
}

bool Fits(const PlanInputs& inputs, int64_t n_ctx) {
  const auto sizes = SizeTotals(inputs, n_ctx);
  return sizes.ok() && WantedBytes(inputs, *sizes) <= inputs.budget_bytes() &&
         sizes->host_bytes <= inputs.options().host_budget_bytes.value_or(
                                  std::numeric_limits<int64_t>::max());
}

std::optional<int64_t> TotalBytes(const PlanInputs& inputs, int64_t n_ctx) {
  const auto sizes = SizeTotals(inputs, n_ctx);
  if (!sizes.ok()) return std::nullopt;
  return sizes->total_bytes;
}

std::optional<int64_t> WantedBytes(const PlanInputs& inputs, int64_t n_ctx) {
  const auto sizes = SizeTotals(inputs, n_ctx);
  if (!sizes.ok()) return std::nullopt;
  return WantedBytes(inputs, *sizes);
}

int64_t LargestContext(const PlanInputs& inputs, int64_t cap) {
  const ContextGrid grid(cap, inputs.context_step());
  // Contexts below `low` fit, those from `high` on do not.
  int64_t low = 0;
  int64_t high = grid.size();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (Fits(inputs, grid.At(middle))) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? 0 : grid.At(low - 1);
}

}  // namespace plimsoll::planner
