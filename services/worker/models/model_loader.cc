#include "services/worker/models/model_loader.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/crash/bus_error.h"
#include "services/host/log.h"
#include "services/host/memory_guard.h"
#include "services/wire/errors.h"
#include "services/worker/models/model_trust.h"
#include "services/worker/models/runtime_monitor.h"
#include "services/worker/models/worker_observer.h"
#include "worker/device/load_fence.h"
#include "worker/device/model_file.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::services {
namespace {

// Whether the device itself says, just before we allocate, that the bytes are
// there: whatever was granted, somebody else may have taken them.
absl::Status CheckFree(const std::string& name, const planner::MemoryPlan& plan,
                       int64_t free_bytes) {
  if (plan.arena_bytes <= free_bytes) return absl::OkStatus();
  return WithDetails(absl::ResourceExhaustedError(absl::StrCat(
                         "model ", name, " was granted ", plan.total_bytes,
                         " bytes, but the device has ", free_bytes,
                         " bytes free for its ", plan.arena_bytes)),
                     {v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
                      {{"wanted_bytes", absl::StrCat(plan.arena_bytes)},
                       {"available_bytes", absl::StrCat(free_bytes)}},
                      std::nullopt});
}

// A load that failed is taken to have lacked at least one part in this many.
constexpr int64_t kMinShortfallShare = 32;

// What is confirmed of a part: its arena, and the vocabulary's tables, which
// are the first part's, where they are on its device.
int64_t MeasuredBytes(const worker::Engine& engine, size_t part) {
  const worker::MemoryReport memory = engine.MemoryOf(part);
  const bool has_vocab = part == 0 && memory.vocab_on_device;
  return memory.allocated_bytes + (has_vocab ? memory.vocab_bytes : 0);
}

// Sets what the model's prompts of chats are made with: the format that is
// `wanted` or that the file's template shows, or else that template itself.
void SetChatFormat(std::optional<worker::ChatFormat> wanted,
                   const planner::GgufHeader& header, LoadedModel& model) {
  if (wanted.has_value()) {
    model.chat_format =
        worker::ChatFormatChoice{*wanted, "the worker's --chat-format"};
    return;
  }
  model.chat_format = worker::ChooseChatFormat(header);
  if (model.chat_format.ok()) return;
  auto own = worker::ModelTemplate::Load(header);
  if (own.ok()) {
    model.own_template = *std::move(own);
  } else {
    model.chat_format = own.status();
  }
}

}  // namespace

const WorkerDevice& ModelLoader::DeviceOf(
    const planner::SplitPart& part) const {
  return options_.devices[static_cast<size_t>(part.device)];
}

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelLoader::Load(
    const ModelFlag& flag, const planner::LoadOptions& options,
    const LoadHooks& hooks) {
  ASSIGN_OR_RETURN(const std::unique_ptr<worker::ModelFile> file,
                   worker::ModelFile::Open(flag.path));
  // Before anything is planned, reserved or expected of the runtime.
  RETURN_IF_ERROR(worker::CheckArchitecture(file->shape()));
  RuntimeMonitor::Expectation expectation;
  if (options_.runtime != nullptr) {
    expectation =
        options_.runtime->Expect({.n_slots = options.n_slots,
                                  .n_rows = options.n_ubatch,
                                  .n_vocab = file->shape().vocab_size},
                                 options.MapsFile());
  }
  ASSIGN_OR_RETURN(const Granted granted,
                   PlanAndReserve(*file, options, flag.name, hooks));
  auto model =
      WithinMemory([&]() -> absl::StatusOr<std::unique_ptr<LoadedModel>> {
        hooks.on_plan(granted.parts);
        return Fill(*file, flag, granted, hooks);
      });
  if (!model.ok()) {
    if (const absl::Status lost = CheckDevices(); !lost.ok()) return lost;
    ReleaseFailed(granted, model.status());
    return model;
  }
  (*model)->expectation = std::move(expectation);
  for (LoadedModel::Part& part : (*model)->parts) {
    part.held_bytes = granted.held[part.device];
  }
  return model;
}

absl::Status ModelLoader::CheckDevices() const {
  for (const WorkerDevice& device : options_.devices) {
    const absl::Status status = device.compute->Check();
    if (status.ok()) continue;
    return options_.on_device_lost == nullptr ? status
                                              : options_.on_device_lost(status);
  }
  return absl::OkStatus();
}

void ModelLoader::ReleaseFailed(const Granted& granted,
                                const absl::Status& status) {
  std::vector<int64_t> shortfalls(granted.leases.size(), 0);
  // With details it was our own check: strangers took the memory.
  if (absl::IsResourceExhausted(status) && !HasDetails(status)) {
    bool is_known = false;  // true if bytes were missing
    for (size_t i = 0; i < shortfalls.size(); ++i) {
      const planner::SplitPart& part = granted.parts[i];
      shortfalls[i] = std::max<int64_t>(
          part.plan.arena_bytes - DeviceOf(part).profile().free_bytes, 0);
      is_known |= shortfalls[i] > 0;
    }
    for (size_t i = 0; i < shortfalls.size(); ++i) {
      if (is_known && shortfalls[i] == 0) continue;
      shortfalls[i] =
          std::max(shortfalls[i],
                   granted.parts[i].plan.arena_bytes / kMinShortfallShare);
    }
  }
  for (size_t i = 0; i < shortfalls.size(); ++i) {
    Release(granted.leases[i], shortfalls[i]);
  }
}

absl::StatusOr<ModelLoader::Granted> ModelLoader::Plan(
    const worker::ModelFile& file, const planner::LoadOptions& options,
    const std::string& name, const LoadHooks& hooks) {
  while (true) {
    Granted granted{.held = hooks.held()};
    auto parts = planner_.Plan(file, options, name, granted.held);
    if (parts.ok()) {
      granted.parts = *std::move(parts);
      return granted;
    }
    const bool may_make_room =
        absl::IsResourceExhausted(parts.status()) && hooks.make_room != nullptr;
    if (!may_make_room) return parts.status();
    RETURN_IF_ERROR(hooks.make_room(parts.status()));
  }
}

absl::StatusOr<ModelLoader::Granted> ModelLoader::PlanAndReserve(
    const worker::ModelFile& file, const planner::LoadOptions& options,
    const std::string& name, const LoadHooks& hooks) {
  absl::Status refusal;
  for (int attempt = 0; attempt < kMaxReserveAttempts; ++attempt) {
    absl::StatusOr<Granted> granted = Plan(file, options, name, hooks);
    // Planner and worker may have read a device at two moments.
    if (client_ != nullptr && absl::IsFailedPrecondition(granted.status())) {
      refusal = granted.status();
      continue;
    }
    if (!granted.ok() || client_ == nullptr) return granted;
    auto leases = ReserveAll(name, granted->parts);
    if (leases.ok()) {
      granted->leases = *std::move(leases);
      return granted;
    }
    refusal = leases.status();
    if (!absl::IsResourceExhausted(refusal)) break;
  }
  return refusal;
}

absl::StatusOr<std::vector<LeaseGrant>> ModelLoader::ReserveAll(
    const std::string& name, const std::vector<planner::SplitPart>& parts) {
  // By device id: of two workers that want the same devices one is refused at
  // the first of them, and the other gets all.
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return DeviceOf(parts[a]).id < DeviceOf(parts[b]).id;
  });
  std::vector<LeaseGrant> leases(parts.size());
  for (size_t n = 0; n < order.size(); ++n) {
    const planner::SplitPart& part = parts[order[n]];
    auto lease = WithinMemory([&] {
      return keeper_->Reserve(DeviceOf(part).id, name, part.plan.total_bytes);
    });
    if (!lease.ok()) {
      for (size_t back = 0; back < n; ++back) Release(leases[order[back]]);
      return lease.status();
    }
    leases[order[n]] = *std::move(lease);
  }
  return leases;
}

absl::Status ModelLoader::Fence(const Granted& granted) const {
  for (const LeaseGrant& lease : granted.leases) {
    RETURN_IF_ERROR(keeper_->Fence(lease.id));
  }
  return absl::OkStatus();
}

absl::Status ModelLoader::Verify(worker::ModelFile& file, const ModelFlag& flag,
                                 const Granted& granted,
                                 const LoadHooks& hooks) const {
  WarnOfOthers(flag);
  return CheckDigest(file, flag, [&](const worker::LoadProgress& progress) {
    RETURN_IF_ERROR(hooks.on_progress(progress));
    return Fence(granted);
  });
}

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelLoader::Fill(
    worker::ModelFile& file, const ModelFlag& flag, const Granted& granted,
    const LoadHooks& hooks) {
  RETURN_IF_ERROR(Verify(file, flag, granted, hooks));
  auto model = std::make_unique<LoadedModel>(options_.clock);
  model->name = flag.name;
  model->architecture = file.shape().architecture;
  model->display_name = file.shape().name;
  model->n_ctx_train = file.shape().n_ctx_train;
  SetChatFormat(options_.chat_format, file.header(), *model);
  std::vector<worker::EnginePart> parts;
  for (const planner::SplitPart& part : granted.parts) {
    const WorkerDevice& device = DeviceOf(part);
    RETURN_IF_ERROR(
        CheckFree(flag.name, part.plan, device.profile().free_bytes));
    parts.push_back(
        {device.compute, part.first_layer, part.n_layers, part.plan});
    model->parts.push_back({static_cast<size_t>(part.device), device.id,
                            device.compute->is_host()});
    if (granted.leases.empty()) continue;
    model->parts.back().lease = granted.leases[model->parts.size() - 1];
  }
  worker::EngineOptions engine{
      .precision = options_.precision,
      .device = parts.front().device,
      .n_threads = options_.n_threads,
      .preemption = options_.preemption,
      .prompt_share = options_.prompt_share,
      .prompt_share_beside_others = options_.prompt_share_beside_others,
      .clock = options_.clock,
      .on_device_lost = options_.on_device_lost};
  if (options_.observer != nullptr) {
    model->observer =
        std::make_unique<ModelObserver>(flag.name, *options_.observer);
    engine.observer = model->observer.get();
  }
  if (options_.prefix_cache_bytes) {
    engine.prefix_cache_bytes = *options_.prefix_cache_bytes;
  }
  // From the end of the allocation, which zeroes, to the end of the weights.
  std::optional<absl::Time> begin;
  const auto fence = [&](const worker::LoadProgress& progress) {
    if (progress.phase == "weights") {
      if (!begin.has_value()) begin = options_.clock();
      model->weight_bytes = progress.bytes_done;
      model->weight_time = options_.clock() - *begin;
    }
    RETURN_IF_ERROR(hooks.on_progress(progress));
    return Fence(granted);
  };
  if (parts.front().plan.options.MapsFile()) EndOnBusError();
  ASSIGN_OR_RETURN(model->engine,
                   worker::Engine::Load(file, std::move(parts), engine, fence));
  RETURN_IF_ERROR(file.CheckUnchanged());
  RETURN_IF_ERROR(Confirm(*model));
  return model;
}

absl::Status ModelLoader::Confirm(const LoadedModel& model) {
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const LoadedModel::Part& part = model.parts[i];
    if (!part.lease.has_value()) continue;
    const int64_t bytes =
        std::min(MeasuredBytes(*model.engine, i), part.lease->bytes);
    const WorkerDevice& device = options_.devices[part.device];
    RETURN_IF_ERROR(
        client_->Confirm(*part.lease, bytes, device.profile().free_bytes));
    keeper_->Confirmed(part.lease->id, bytes);
  }
  return absl::OkStatus();
}

void ModelLoader::Retire(const LeaseGrant& lease) {
  if (keeper_ != nullptr) keeper_->Retire(lease.id);
}

void ModelLoader::Release(const LeaseGrant& lease, int64_t shortfall_bytes) {
  if (client_ == nullptr) return;
  const absl::Status status = keeper_->Release(lease, shortfall_bytes);
  if (!status.ok()) {
    Log(LogLevel::kWarning, "a lease could not be released",
        {{"error", std::string(status.message())}});
    return;
  }
  // The planner's last reading still misses the bytes that just came free.
  for (const WorkerDevice& device : options_.devices) {
    if (device.id != lease.device_id) continue;
    client_->RegisterDevice(device.id, device.profile()).IgnoreError();
  }
}

}  // namespace plimsoll::services
