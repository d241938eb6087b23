#include "services/worker/models/model_planner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "services/sources/header_bytes.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::services {
namespace {

template <typename Plan>
std::string Tries(const Plan& plan) {
  return absl::StrJoin(plan.suggestions(), "; ",
                       [](std::string* out, const v1::Suggestion& suggestion) {
                         out->append(suggestion.text());
                       });
}

// The refusal of a plan that does not fit, with its arithmetic.
absl::Status DoesNotFitOne(const std::string& name,
                           const v1::MemoryPlan& plan) {
  const std::string tries = Tries(plan);
  return WithDetails(
      absl::ResourceExhaustedError(absl::StrCat(
          "model ", name, " needs ", plan.total_bytes(), " bytes, ",
          plan.budget_bytes(), " are there: ", plan.missing_bytes(),
          " bytes are missing", tries.empty() ? "" : "; try ", tries)),
      {v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
       {{"wanted_bytes", absl::StrCat(plan.total_bytes())},
        {"available_bytes", absl::StrCat(plan.budget_bytes())},
        {"missing_bytes", absl::StrCat(plan.missing_bytes())},
        {"try", tries}},
       std::nullopt});
}

absl::Status OtherBytes(uint64_t planner_bytes, int64_t own_bytes) {
  // Another worker may have registered its own runtime in between.
  return absl::FailedPreconditionError(
      absl::StrCat("the planner plans ", planner_bytes, " bytes, this worker ",
                   own_bytes, ": they are of different builds"));
}

// What is left of the worker's own limit.
std::optional<int64_t> OwnLimit(const WorkerDevice& device,
                                int64_t held_bytes) {
  if (!device.memory_bytes.has_value()) return std::nullopt;
  return std::max<int64_t>(*device.memory_bytes - held_bytes, 0);
}

planner::SplitDevice BudgetOf(const WorkerDevice& device, int64_t held_bytes) {
  planner::DeviceProfile profile = device.profile();
  const int64_t free_bytes = profile.free_bytes;
  const int64_t budget =
      std::min(free_bytes, OwnLimit(device, held_bytes).value_or(free_bytes));
  return {std::move(profile), budget};
}

std::vector<planner::SplitPart> Whole(planner::MemoryPlan plan,
                                      const worker::ModelFile& file) {
  std::vector<planner::SplitPart> parts;
  parts.push_back({0, 0, file.shape().n_layers, std::move(plan)});
  return parts;
}

absl::Status CheckAllRunnable(const worker::ModelFile& file,
                              const std::vector<planner::SplitPart>& parts) {
  for (const planner::SplitPart& part : parts) {
    RETURN_IF_ERROR(worker::CheckRunnable(file.shape(), part.plan));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<planner::SplitPart>> ModelPlanner::Plan(
    const worker::ModelFile& file, const planner::LoadOptions& options,
    const std::string& name, const BytesByDevice& held) const {
  const bool is_alone = options_.devices.size() == 1;
  planner::LoadOptions bounded = options;
  bounded.host_budget_bytes = worker::HostBudgetBytes(
      options, is_alone ? options_.devices.front().compute : nullptr);
  if (client_ == nullptr) return PlanHere(file, bounded, name, held);
  const PlannedModel model = {
      .header = HeaderBytes(file.header(), file.shape().vocab),
      .file_bytes = file.Size(),
      .options = bounded,
      .purpose = name};
  return is_alone ? PlanThere(model, file, held)
                  : SplitThere(model, file, held);
}

absl::Status ModelPlanner::DoesNotFit(
    const std::string& name, const v1::PlanSplitResponse& split) const {
  std::vector<std::string> devices;
  for (int i = 0; i < split.budget_bytes_size(); ++i) {
    std::string text =
        absl::StrCat(options_.devices[static_cast<size_t>(i)].id, " has ",
                     split.budget_bytes(i), " bytes and takes no layer");
    for (const v1::SplitPart& part : split.parts()) {
      if (part.device() != static_cast<uint32_t>(i)) continue;
      text = absl::StrCat(options_.devices[static_cast<size_t>(i)].id,
                          " takes layers ", part.first_layer(), "-",
                          part.first_layer() + part.n_layers() - 1, " in ",
                          part.plan().total_bytes(), " of ",
                          split.budget_bytes(i), " bytes");
    }
    devices.push_back(std::move(text));
  }
  const uint64_t available =
      split.budget_bytes_size() == 0 ? 0 : *split.budget_bytes().rbegin();
  const std::string tries = Tries(split);
  return WithDetails(
      absl::ResourceExhaustedError(absl::StrCat(
          "model ", name, " does not fit its devices: ",
          absl::StrJoin(devices, ", "), "; ", split.n_layers_left(),
          split.n_layers_left() == 1 ? " layer is" : " layers are",
          " left, for which the last device lacks ", split.missing_bytes(),
          " bytes; try ", tries, tries.empty() ? "" : "; or ",
          "another device at the end")),
      {v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
       {{"wanted_bytes", absl::StrCat(available + split.missing_bytes())},
        {"available_bytes", absl::StrCat(available)},
        {"missing_bytes", absl::StrCat(split.missing_bytes())},
        {"layers_left", absl::StrCat(split.n_layers_left())},
        {"try", tries}},
       std::nullopt});
}

absl::StatusOr<ModelPlanner::Parts> ModelPlanner::PlanHere(
    const worker::ModelFile& file, const planner::LoadOptions& options,
    const std::string& name, const BytesByDevice& held) const {
  std::vector<planner::SplitDevice> devices;
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    devices.push_back(BudgetOf(options_.devices[i], held[i]));
  }
  if (devices.size() == 1) {
    ASSIGN_OR_RETURN(
        planner::MemoryPlan plan,
        planner::Layout(file.shape(), {options}, devices.front().profile,
                        devices.front().budget_bytes));
    RETURN_IF_ERROR(worker::CheckRunnable(file.shape(), plan));
    if (!plan.fits) return DoesNotFitOne(name, ToProto(plan));
    return Whole(std::move(plan), file);
  }
  ASSIGN_OR_RETURN(planner::SplitPlan split,
                   planner::SplitLayers(file.shape(), {options}, devices));
  RETURN_IF_ERROR(CheckAllRunnable(file, split.parts));
  if (split.fits) return std::move(split.parts);
  return DoesNotFit(name, ToProto(split, devices));
}

absl::StatusOr<ModelPlanner::Parts> ModelPlanner::PlanThere(
    const PlannedModel& model, const worker::ModelFile& file,
    const BytesByDevice& held) const {
  const WorkerDevice& device = options_.devices.front();
  const planner::DeviceProfile profile = device.profile();
  RETURN_IF_ERROR(client_->RegisterDevice(device.id, profile));
  ASSIGN_OR_RETURN(
      const v1::MemoryPlan wire,
      client_->Plan(model, {device.id, OwnLimit(device, held.front())}));
  if (!wire.fits() && wire.not_runnable().empty()) {
    return DoesNotFitOne(model.purpose, wire);
  }
  // The worker lays out the same plan itself; the totals must agree.
  planner::LoadOptions exact = model.options;
  exact.n_ctx = wire.n_ctx();
  exact.n_cpu_experts = wire.options().n_cpu_experts();
  ASSIGN_OR_RETURN(planner::MemoryPlan plan,
                   planner::Layout(file.shape(), {exact}, profile,
                                   static_cast<int64_t>(wire.total_bytes())));
  RETURN_IF_ERROR(worker::CheckRunnable(file.shape(), plan));
  if (ToUint64(plan.total_bytes) != wire.total_bytes() ||
      ToUint64(plan.arena_bytes) != wire.arena_bytes()) {
    return OtherBytes(wire.total_bytes(), plan.total_bytes);
  }
  plan.n_ctx_reason = wire.n_ctx_reason();
  plan.cpu_experts_reason = wire.cpu_experts_reason();
  return Whole(std::move(plan), file);
}

absl::StatusOr<ModelPlanner::Parts> ModelPlanner::SplitThere(
    const PlannedModel& model, const worker::ModelFile& file,
    const BytesByDevice& held) const {
  std::vector<DeviceBudget> budgets;
  std::vector<planner::SplitDevice> devices;
  for (size_t i = 0; i < options_.devices.size(); ++i) {
    const WorkerDevice& device = options_.devices[i];
    devices.push_back({device.profile(), 0});
    budgets.push_back({device.id, OwnLimit(device, held[i])});
    RETURN_IF_ERROR(client_->RegisterDevice(device.id, devices.back().profile));
  }
  ASSIGN_OR_RETURN(const v1::PlanSplitResponse wire,
                   client_->PlanSplit(model, budgets));
  for (const v1::SplitPart& part : wire.parts()) {
    if (part.plan().not_runnable().empty()) continue;
    return absl::UnimplementedError(part.plan().not_runnable(0));
  }
  if (!wire.fits()) return DoesNotFit(model.purpose, wire);
  // The worker splits by itself with exactly the bytes of each part; it must
  // come to the same.
  uint64_t wire_bytes = 0;
  for (const v1::SplitPart& part : wire.parts()) {
    if (part.device() >= devices.size()) {
      return absl::InternalError("the planner names a device that is not ours");
    }
    wire_bytes += part.plan().total_bytes();
    devices[part.device()].budget_bytes =
        static_cast<int64_t>(part.plan().total_bytes());
  }
  planner::LoadOptions exact = model.options;
  exact.n_ctx = wire.n_ctx();
  ASSIGN_OR_RETURN(planner::SplitPlan split,
                   planner::SplitLayers(file.shape(), {exact}, devices));
  RETURN_IF_ERROR(CheckAllRunnable(file, split.parts));
  const auto is_same = [](const planner::SplitPart& own,
                          const v1::SplitPart& theirs) {
    return ToUint32(own.device) == theirs.device() &&
           ToUint32(own.n_layers) == theirs.n_layers() &&
           ToUint64(own.plan.total_bytes) == theirs.plan().total_bytes() &&
           ToUint64(own.plan.arena_bytes) == theirs.plan().arena_bytes();
  };
  if (!std::equal(split.parts.begin(), split.parts.end(), wire.parts().begin(),
                  wire.parts().end(), is_same)) {
    int64_t own_bytes = 0;
    for (const planner::SplitPart& part : split.parts) {
      own_bytes += part.plan.total_bytes;
    }
    return OtherBytes(wire_bytes, own_bytes);
  }
  for (planner::SplitPart& part : split.parts) {
    part.plan.n_ctx_reason = wire.n_ctx_reason();
  }
  return std::move(split.parts);
}

}  // namespace plimsoll::services
