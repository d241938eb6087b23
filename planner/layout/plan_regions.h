// The sizes of a plan's regions for one context, and the regions themselves.
#ifndef PLIMSOLL_PLANNER_LAYOUT_PLAN_REGIONS_H_
#define PLIMSOLL_PLANNER_LAYOUT_PLAN_REGIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/mtp_layout.h"
#include "planner/layout/weight_layout.h"

namespace plimsoll::planner {

// Errors: kInvalidArgument naming the field of the options that is out of
// range.
absl::Status ValidateOptions(const PlanOptions& options);

// How an engine with these options lays out its KV cache.
KvRules KvRulesOf(const PlanOptions& options);

// By how much a solver makes contexts longer: by whole pages or by single
// tokens.
enum class ContextStep { kPage, kToken };

// What is to be planned. It refers to its parts, which outlive it.
struct PlanRequest {
  const ModelShape& shape;
  const PlanOptions& options;
  const DeviceProfile& profile;
  int64_t budget_bytes;
};

// The inputs of a plan. Everything that does not depend on the context is
// computed once, so that a solver can try many contexts. Refers to the
// request's shape, options and profile, which outlive it.
class PlanInputs {
 public:
  // Requires valid options and a valid profile.
  // Errors: kInvalidArgument; kOutOfRange on overflow.
  static absl::StatusOr<PlanInputs> Create(const PlanRequest& request,
                                           const WeightBytes& weights);

  // Inputs of the same model with other options, whose weight_type may name
  // another type.
  absl::StatusOr<PlanInputs> With(const PlanOptions& options) const;

  const ModelShape& shape() const { return *shape_; }
  const PlanOptions& options() const { return *options_; }
  // As the options say, or decided by idle_session_bytes.
  int64_t n_idle_sessions() const { return n_idle_sessions_; }
  const DeviceProfile& profile() const { return *profile_; }
  int64_t budget_bytes() const { return budget_bytes_; }
  // Null if no MTP head is loaded.
  const MtpLayout* mtp() const { return mtp_ ? &*mtp_ : nullptr; }
  // Bytes of all weights that the plan counts: the planned bytes on the device
  // and those in the mapped file.
  int64_t weight_bytes() const { return weight_bytes_ + mapped_bytes_; }
  // Contexts are counted in single tokens, not in pages.
  ContextStep context_step() const;

 private:
  friend class RegionSizer;
  PlanInputs() = default;

  const ModelShape* shape_;
  const PlanOptions* options_;
  const DeviceProfile* profile_;
  int64_t n_idle_sessions_;
  int64_t budget_bytes_;
  WeightBytes weights_;
  int64_t weight_bytes_;  // on the device
  int64_t mapped_bytes_ = 0;
  int64_t vocab_bytes_;
  int64_t reserve_bytes_ = 0;
  int64_t scratch_bytes_ = 0;
  KvModel kv_;
  std::optional<MtpLayout> mtp_;  // if the head is loaded
  StepWidths widths_;
  WorkspacePlan workspace_;  // a whole step's, with rings if there are windows
};

// Everything that depends on the context, in bytes.
struct RegionSizes {
  int64_t n_ctx;
  int64_t n_rows;
  int64_t n_sampled;
  KvBytes kv;
  KvBytes mtp_kv;               // zeros without an MTP head
  WorkspacePlan workspace;      // empty in SizeTotals
  WorkspacePlan cpu_workspace;  // likewise, for experts that the CPU computes
  int64_t arena_bytes;          // sum of the regions in it
  int64_t total_bytes;          // on the device
  int64_t rounding_bytes;  // the part of total_bytes that the allocator adds
  int64_t host_bytes;      // elsewhere
  int64_t mapped_bytes;    // pages of the mapped file, wherever they are
  std::vector<Region> regions;  // without formulas; empty in SizeTotals

  // Bytes that one slot with a full context keeps. The sum does not overflow,
  // because the regions have room for the bytes of all slots.
  int64_t SlotBytes() const { return kv.SlotBytes() + mtp_kv.SlotBytes(); }
};

// Lays out the plan for `n_ctx`, with its regions.
// Errors: kOutOfRange on overflow; kInvalidArgument.
absl::StatusOr<RegionSizes> SizeRegions(const PlanInputs& inputs,
                                        int64_t n_ctx);
// Sums up the plan for `n_ctx` in less time: without its regions.
// Errors: as SizeRegions.
absl::StatusOr<RegionSizes> SizeTotals(const PlanInputs& inputs, int64_t n_ctx);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_PLAN_REGIONS_H_
