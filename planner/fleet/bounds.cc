#include "planner/fleet/bounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/layout/kv_cache_bytes.h"
#include "planner/model/weight_type.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

// Matrices of a tensor that every step reads: of experts, those that one token
// chooses; of a table, none, because a step reads single rows.
int64_t MatricesRead(const ModelShape& shape, const WeightTensor& tensor) {
  if (IsTable(shape, tensor)) return 0;
  return tensor.kind == WeightKind::kExpert
             ? std::min(tensor.n_matrices, shape.n_experts_used)
             : tensor.n_matrices;
}

}  // namespace

absl::StatusOr<int64_t> WeightBytesPerStep(const ModelShape& shape) {
  Checked sum = 0;
  for (const WeightTensor& tensor : shape.weights) {
    ASSIGN_OR_RETURN(const int64_t row, RowBytes(tensor.dtype, tensor.cols));
    sum += Checked(row) * tensor.rows * MatricesRead(shape, tensor);
  }
  if (sum.overflow()) {
    return absl::OutOfRangeError("the weights do not fit in int64 bytes");
  }
  return *sum.Get();
}

absl::StatusOr<DecodeBound> BoundDecode(const ModelShape& shape,
                                        const DecodeSteps& steps,
                                        int64_t bandwidth_bytes_per_s) {
  if (bandwidth_bytes_per_s <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bandwidth_bytes_per_s must be positive, got ", bandwidth_bytes_per_s));
  }
  DecodeBound bound = {};
  ASSIGN_OR_RETURN(bound.weight_bytes, WeightBytesPerStep(shape));
  ASSIGN_OR_RETURN(const KvBytes kv,
                   KvCacheBytes(shape, {.n_ctx = steps.n_ctx,
                                        .n_slots = steps.n_sequences,
                                        .k_type = steps.k_type,
                                        .v_type = steps.v_type}));
  const auto all_kv =
      (Checked(kv.full_bytes) + kv.window_bytes + kv.all_state_bytes).Get();
  const auto step = all_kv ? CheckedAdd(bound.weight_bytes, *all_kv) : all_kv;
  if (!step) {
    return absl::OutOfRangeError("a step's bytes do not fit in int64");
  }
  bound.kv_bytes = *all_kv / steps.n_sequences;
  // This avoids a division by 0 for a model without weights and caches.
  bound.steps_per_s = static_cast<double>(bandwidth_bytes_per_s) /
                      static_cast<double>(std::max<int64_t>(*step, 1));
  bound.tokens_per_s =
      bound.steps_per_s * static_cast<double>(steps.n_sequences);
  return bound;
}

std::optional<int64_t> TokensPerGib(const MemoryPlan& plan) {
  const int64_t page_bytes = plan.kv.page_bytes + plan.mtp_kv.page_bytes;
  if (page_bytes == 0) return std::nullopt;
  const auto pages =
      CheckedMul(page_bytes, std::max<int64_t>(plan.options.n_slots, 1));
  if (!pages) return 0;
  return kGib / *pages * plan.kv.page_tokens;
}

absl::StatusOr<int64_t> MaxSessions(const ModelShape& shape,
                                    const PlanOptions& options,
                                    const DeviceProfile& profile,
                                    int64_t budget_bytes) {
  if (!options.n_ctx) {
    return absl::InvalidArgumentError("n_ctx is needed to count sessions");
  }
  // Plans up to `low` slots fit, those from `high` on do not: a plan's bytes
  // never shrink as slots are added.
  int64_t low = 0;
  int64_t high = LoadOptions::kMaxSlots + 1;
  while (high - low > 1) {
    PlanOptions trial = options;
    trial.n_slots = low + (high - low) / 2;
    const auto plan = LayoutNumbers(shape, trial, profile, budget_bytes);
    if (!plan.ok() && !absl::IsOutOfRange(plan.status())) return plan.status();
    (plan.ok() && plan->fits ? low : high) = trial.n_slots;
  }
  return low;
}

absl::StatusOr<std::optional<DeviceBounds>> BoundsOn(
    const ModelShape& shape, const PlanOptions& options,
    const TargetDevice& device) {
  const auto& [profile, budget_bytes, bandwidth_bytes_per_s] = device;
  auto plan = Layout(shape, options, profile, budget_bytes);
  if (absl::IsOutOfRange(plan.status())) return std::nullopt;
  if (!plan.ok()) return plan.status();
  if (!plan->fits) return std::nullopt;
  DeviceBounds bounds = {*std::move(plan), 0, std::nullopt, std::nullopt};
  PlanOptions resolved = options;
  resolved.n_ctx = bounds.plan.n_ctx;
  ASSIGN_OR_RETURN(bounds.max_sessions,
                   MaxSessions(shape, resolved, profile, budget_bytes));
  bounds.tokens_per_gib = TokensPerGib(bounds.plan);
  if (bandwidth_bytes_per_s) {
    ASSIGN_OR_RETURN(const StoredShape stored,
                     StoredShape::Create(shape, options.engine.weight_type));
    ASSIGN_OR_RETURN(bounds.decode, BoundDecode(stored.get(),
                                                {.n_ctx = bounds.plan.n_ctx,
                                                 .n_sequences = options.n_slots,
                                                 .k_type = options.k_type,
                                                 .v_type = options.v_type},
                                                *bandwidth_bytes_per_s));
  }
  return bounds;
}

absl::StatusOr<std::vector<FittingDevice>> FittingDevices(
    const ModelShape& shape, const PlanOptions& options,
    const DeviceCatalogue& catalogue, StopCheck stop) {
  std::vector<FittingDevice> fitting;
  for (const CatalogueDevice& device : catalogue.devices()) {
    RETURN_IF_ERROR(stop());
    ASSIGN_OR_RETURN(std::optional<DeviceBounds> bounds,
                     BoundsOn(shape, options,
                              {ProfileOf(device), device.memory_bytes,
                               device.bandwidth_bytes_per_s}));
    if (bounds) fitting.push_back({device, *std::move(bounds)});
  }
  return fitting;
}

}  // namespace plimsoll::planner
