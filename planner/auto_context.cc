#include "planner/auto_context.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kPage = 64;
constexpr int64_t kShortPage = 16;
constexpr int64_t kNumShortPages = kPage / kShortPage;

}  // namespace

int64_t NumContexts(int64_t cap) {
  if (cap <= kPage) return CeilDiv(cap, kShortPage);
  return kNumShortPages + CeilDiv(cap, kPage) - 1;
}

int64_t ContextAt(int64_t index, int64_t cap) {
  if (index < kNumShortPages) return std::min((index + 1) * kShortPage, cap);
  const int64_t pages = index - kNumShortPages + 2;
  return std::min(CheckedMul(pages, kPage).value_or(cap), cap);
}

int64_t NextContext(int64_t n_ctx, int64_t cap) {
  const int64_t step = n_ctx < kPage ? kShortPage : kPage;
  return std::min(CheckedAdd(n_ctx, step).value_or(cap), cap);
}

absl::StatusOr<std::optional<int64_t>> TotalBytes(const PlanInputs& inputs,
                                                  int64_t n_ctx) {
  const auto sizes = SizeRegions(inputs, n_ctx);
  if (sizes.ok()) return sizes->total_bytes;
  if (absl::IsOutOfRange(sizes.status())) return std::nullopt;
  return sizes.status();
}

absl::StatusOr<int64_t> LargestContext(const PlanInputs& inputs, int64_t cap,
                                       int64_t budget_bytes) {
  // Contexts below `low` fit, those from `high` on do not.
  int64_t low = 0;
  int64_t high = NumContexts(cap);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const auto bytes,
                     TotalBytes(inputs, ContextAt(middle, cap)));
    if (bytes && *bytes <= budget_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? 0 : ContextAt(low - 1, cap);
}

}  // namespace plimsoll::planner
