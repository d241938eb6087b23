#include "planner/auto_context.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kPage = 64;
constexpr int64_t kShortPage = 16;
constexpr int64_t kNumShortPages = kPage / kShortPage;

// Narrows down where contexts stop to fit: those up to `low` fit, those from
// `high` on do not.
class Bracket {
 public:
  Bracket(const PlanInputs& inputs, int64_t cap, int64_t budget_bytes)
      : inputs_(inputs), cap_(cap), budget_bytes_(budget_bytes) {}

  int64_t low() const { return low_; }
  int64_t width() const { return high_ - low_; }
  int64_t middle() const { return low_ + width() / 2; }

  // Plans for the context at `index` and moves an end of the bracket to it.
  absl::StatusOr<bool> Fits(int64_t index) {
    ASSIGN_OR_RETURN(const auto bytes,
                     TotalBytes(inputs_, ContextAt(index, cap_)));
    const bool fits = bytes && *bytes <= budget_bytes_;
    (fits ? low_ : high_) = index;
    (fits ? low_bytes_ : high_bytes_) = bytes;
    return fits;
  }

  // From some context on, where every window layer has its ring, bytes grow
  // almost as a straight line. Two points of it, the second being `last`, give
  // its crossing of the budget, and a few steps from there leave little to
  // halve. Any other growth costs these few plans and no more.
  absl::Status Interpolate(int64_t last) {
    if (!high_bytes_) return absl::OkStatus();
    const Point end = {last, *high_bytes_};
    ASSIGN_OR_RETURN(const Point start,
                     Try(Crossing({low_, *low_bytes_}, end)));
    if (width() <= 1) return absl::OkStatus();
    const int64_t guess = Crossing(start, end);
    ASSIGN_OR_RETURN(const bool fits, Fits(guess));
    for (int64_t step = 1; step <= kLongestStep && step < width(); step *= 4) {
      ASSIGN_OR_RETURN(const bool next_fits,
                       Fits(fits ? low_ + step : high_ - step));
      if (next_fits != fits) break;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kLongestStep = 64;

  struct Point {
    int64_t index;
    int64_t bytes;
  };

  absl::StatusOr<Point> Try(int64_t index) {
    ASSIGN_OR_RETURN(const bool fits, Fits(index));
    return Point{index, (fits ? low_bytes_ : high_bytes_).value_or(0)};
  }

  // Where the line through two points reaches the budget, strictly inside the
  // bracket.
  int64_t Crossing(const Point& a, const Point& b) const {
    const double bytes = static_cast<double>(b.bytes - a.bytes);
    const double missing = static_cast<double>(budget_bytes_ - a.bytes);
    const double steps = bytes > 0 ? missing / bytes : 0;
    const double at = static_cast<double>(a.index) +
                      steps * static_cast<double>(b.index - a.index);
    const auto first = static_cast<double>(low_ + 1);
    const auto last = static_cast<double>(high_ - 1);
    return static_cast<int64_t>(std::clamp(at, first, last));
  }

  const PlanInputs& inputs_;
  const int64_t cap_;
  const int64_t budget_bytes_;
  int64_t low_ = 0;
  int64_t high_ = 0;
  std::optional<int64_t> low_bytes_;
  std::optional<int64_t> high_bytes_;
};

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
  Bracket bracket(inputs, cap, budget_bytes);
  const int64_t last = NumContexts(cap) - 1;
  ASSIGN_OR_RETURN(const bool all_fit, bracket.Fits(last));
  if (all_fit) return ContextAt(last, cap);
  ASSIGN_OR_RETURN(const bool any_fits, bracket.Fits(0));
  if (!any_fits) return 0;
  if (bracket.width() > 1) RETURN_IF_ERROR(bracket.Interpolate(last));
  while (bracket.width() > 1) {
    RETURN_IF_ERROR(bracket.Fits(bracket.middle()).status());
  }
  return ContextAt(bracket.low(), cap);
}

}  // namespace plimsoll::planner
