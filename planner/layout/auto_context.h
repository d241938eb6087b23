// The largest context whose plan fits a budget.
#ifndef PLIMSOLL_PLANNER_LAYOUT_AUTO_CONTEXT_H_
#define PLIMSOLL_PLANNER_LAYOUT_AUTO_CONTEXT_H_

#include <cstdint>
#include <optional>

#include "planner/layout/plan_regions.h"

namespace plimsoll::planner {

// The contexts up to `cap` tokens among which a solver chooses, smallest first.
// By pages they are 16, 32, 48 and 64 tokens (one short page), then whole pages
// of 64, the last one cut to `cap`; by tokens, every number of tokens.
class ContextGrid {
 public:
  // Requires cap > 0.
  ContextGrid(int64_t cap, ContextStep step) : cap_(cap), step_(step) {}

  int64_t size() const;
  // Requires 0 <= index < size().
  int64_t At(int64_t index) const;
  // The context after `n_ctx`, which must be one of them and not the last.
  int64_t Next(int64_t n_ctx) const;

 private:
  int64_t cap_;
  ContextStep step_;
};

// True if a plan leaves room for the pages of a mapped file, so that the system
// can keep them beside it: where the device is the host and the context is
// solved.
bool LeavesRoomForPages(const PlanInputs& inputs);

// The bytes of the device's budget that a plan takes: its total bytes, and the
// pages for which it leaves room.
int64_t WantedBytes(const PlanInputs& inputs, const RegionSizes& sizes);

// True if the plan for `n_ctx` fits its budgets. A plan whose bytes overflow
// int64 does not fit.
bool Fits(const PlanInputs& inputs, int64_t n_ctx);

// Total bytes, and wanted bytes, of the plan for `n_ctx`; nothing if they
// overflow int64.
std::optional<int64_t> TotalBytes(const PlanInputs& inputs, int64_t n_ctx);
std::optional<int64_t> WantedBytes(const PlanInputs& inputs, int64_t n_ctx);

// Returns the largest context up to `cap` whose plan fits, or 0 if none does.
// Exact, because a plan's bytes never shrink as its context grows.
int64_t LargestContext(const PlanInputs& inputs, int64_t cap);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_AUTO_CONTEXT_H_
