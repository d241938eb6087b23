#include "worker/graph/decoder/stage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "planner/layout/cpu_experts.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/mtp_layout.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::worker {
namespace {

// Checks that the parts have all layers, each once and in order.
absl::Status CheckLayers(const planner::ModelShape& shape,
                         std::span<const EnginePart> parts) {
  int64_t next = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const EnginePart& part = parts[i];
    if (part.first_layer != next || part.n_layers < 1 ||
        part.n_layers > shape.n_layers - next) {
      return absl::InvalidArgumentError(absl::StrCat(
          "part ", i, " has ", part.n_layers, " layers from ", part.first_layer,
          " on; it must begin with layer ", next, " of the model's ",
          shape.n_layers, " and have at least one"));
    }
    next += part.n_layers;
  }
  if (next == shape.n_layers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(parts.size(), " parts have ", next,
                   " layers, the model has ", shape.n_layers));
}

// Checks that all parts have plans for the same steps, because one book of
// slots and pages is kept for all of them.
absl::Status CheckAlike(std::span<const EnginePart> parts) {
  const planner::MemoryPlan& first = parts.front().plan;
  for (size_t i = 1; i < parts.size(); ++i) {
    const planner::MemoryPlan& plan = parts[i].plan;
    struct {
      absl::string_view name;
      int64_t wanted, got;
    } const same[] = {
        {"n_ctx", first.n_ctx, plan.n_ctx},
        {"n_slots", first.options.n_slots, plan.options.n_slots},
        {"n_ubatch", first.options.n_ubatch, plan.options.n_ubatch},
        {"rows of a step", first.n_rows, plan.n_rows},
        {"n_idle_sessions", first.options.n_idle_sessions,
         plan.options.n_idle_sessions},
        {"n_parked", first.options.n_parked, plan.options.n_parked},
        {"n_draft", first.options.n_draft, plan.options.n_draft},
        {"k_type", static_cast<int64_t>(first.options.k_type),
         static_cast<int64_t>(plan.options.k_type)},
        {"v_type", static_cast<int64_t>(first.options.v_type),
         static_cast<int64_t>(plan.options.v_type)},
        {"tokens of a page", first.kv.page_tokens, plan.kv.page_tokens},
        {"pages of a slot", first.kv.pages_per_slot, plan.kv.pages_per_slot},
        {"pages", first.kv.n_pages, plan.kv.n_pages}};
    for (const auto& number : same) {
      if (number.wanted == number.got) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the plans of parts 0 and ", i, " differ in ",
                       number.name, ": ", number.wanted, " and ", number.got));
    }
  }
  return absl::OkStatus();
}

// Checks that the plan was made for the shape of these layers.
absl::Status CheckPlan(const planner::ModelShape& shape,
                       const planner::MemoryPlan& plan, size_t i) {
  if (plan.weights.size() != shape.weights.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan of part ", i, " has ", plan.weights.size(),
                     " tensors, its layers have ", shape.weights.size()));
  }
  RETURN_IF_ERROR(CheckRunnable(shape, plan));
  if (plan.fits) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the plan needs ", plan.total_bytes, " bytes, the budget is ",
      plan.budget_bytes, ": ", plan.missing_bytes, " bytes are missing"));
}

absl::StatusOr<std::unique_ptr<MtpStage>> MtpStageOf(
    const planner::ModelShape& shape, const planner::MemoryPlan& plan) {
  if (!shape.mtp || plan.mtp_weights.size() != shape.mtp->weights.size()) {
    return absl::InvalidArgumentError(
        "the plan has an MTP head, and these layers have none, or another one");
  }
  auto part = std::make_unique<MtpStage>(
      MtpStage{planner::MtpShapeOf(shape), planner::MtpPlanOf(plan)});
  RETURN_IF_ERROR(CheckArchitecture(part->shape));
  return part;
}

// One pool of threads computes for one part at a time.
absl::Status CheckHostStage(const Stage& stage, size_t n_parts) {
  if (n_parts == 1 && !stage.device->is_host()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "experts may lie in host memory only if all layers lie on one device "
      "with memory of its own");
}

bool IsSameHardware(const ComputeDevice& a, const ComputeDevice& b) {
  if (&a == &b || (a.is_host() && b.is_host())) return true;
  return !a.unique_id().empty() && a.unique_id() == b.unique_id();
}

bool AnyPartOnHost(std::span<const EnginePart> parts) {
  return std::ranges::any_of(
      parts, [](const EnginePart& part) { return DeviceOf(part).is_host(); });
}

}  // namespace

absl::StatusOr<std::vector<Stage>> StagesOf(const planner::ModelShape& shape,
                                            std::span<const EnginePart> parts) {
  if (parts.empty()) {
    return absl::InvalidArgumentError("a model of no parts");
  }
  RETURN_IF_ERROR(CheckLayers(shape, parts));
  RETURN_IF_ERROR(CheckAlike(parts));
  std::vector<Stage> stages;
  for (size_t i = 0; i < parts.size(); ++i) {
    const EnginePart& part = parts[i];
    ASSIGN_OR_RETURN(
        planner::ModelShape slice,
        planner::SliceLayers(shape, part.first_layer, part.n_layers));
    RETURN_IF_ERROR(CheckPlan(slice, part.plan, i));
    Stage& stage = stages.emplace_back(Stage{.shape = std::move(slice),
                                             .first_layer = part.first_layer,
                                             .plan = &part.plan,
                                             .device = &DeviceOf(part)});
    if (part.plan.HasMtp()) {
      ASSIGN_OR_RETURN(stage.mtp, MtpStageOf(stage.shape, part.plan));
    }
    if (!part.plan.HasCpuExperts()) continue;
    RETURN_IF_ERROR(CheckHostStage(stage, parts.size()));
    stage.host = std::make_unique<HostStage>(
        HostStage{.plan = planner::HostPlanOf(part.plan)});
  }
  return stages;
}

bool AnyOnHost(std::span<const Stage> stages) {
  return std::ranges::any_of(stages, [](const Stage& stage) {
    return stage.device->is_host() || stage.host != nullptr;
  });
}

std::vector<size_t> LanesOf(std::span<const EnginePart> parts) {
  std::vector<const ComputeDevice*> devices;  // one for each lane
  if (AnyPartOnHost(parts)) devices.push_back(&LocalCpu());
  std::vector<size_t> lanes;
  for (const EnginePart& part : parts) {
    const ComputeDevice& device = DeviceOf(part);
    const auto found =
        std::ranges::find_if(devices, [&](const ComputeDevice* other) {
          return IsSameHardware(device, *other);
        });
    lanes.push_back(static_cast<size_t>(found - devices.begin()));
    if (found == devices.end()) devices.push_back(&device);
  }
  return lanes;
}

}  // namespace plimsoll::worker
