#include "services/worker/model_loader.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "services/common/errors.h"
#include "services/common/header_bytes.h"
#include "services/common/log.h"
#include "services/common/random_id.h"
#include "services/common/to_proto.h"
#include "services/worker/runtime_monitor.h"
#include "worker/model.h"
#include "worker/model_file.h"

namespace plimsoll::services {
namespace {

// The refusal of a plan that does not fit, with its arithmetic.
absl::Status DoesNotFit(const std::string& name, const v1::MemoryPlan& plan) {
  std::vector<std::string> texts;
  for (const v1::Suggestion& suggestion : plan.suggestions()) {
    texts.push_back(suggestion.text());
  }
  const std::string tries = absl::StrJoin(texts, "; ");
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

// What is left of the worker's own limit.
std::optional<int64_t> OwnLimit(const WorkerOptions& options,
                                int64_t held_bytes) {
  if (!options.device_memory_bytes.has_value()) return std::nullopt;
  return std::max<int64_t>(*options.device_memory_bytes - held_bytes, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelLoader::Load(
    const ModelFlag& flag, const planner::LoadOptions& options,
    int64_t held_bytes, const LoadHooks& hooks) {
  ASSIGN_OR_RETURN(const std::unique_ptr<worker::ModelFile> file,
                   worker::ModelFile::Open(flag.path));
  if (options_.runtime != nullptr) {
    options_.runtime->Expect({.n_slots = options.n_slots,
                              .n_rows = options.n_ubatch,
                              .n_vocab = file->shape().vocab_size});
  }
  ASSIGN_OR_RETURN(const Granted granted,
                   client_ == nullptr
                       ? PlanAlone(*file, options, flag.name, held_bytes)
                       : PlanAndReserve(*file, options, flag.name, held_bytes));
  hooks.on_plan(granted.plan);
  if (granted.lease.has_value()) keeper_->Add(*granted.lease);
  absl::StatusOr<std::unique_ptr<LoadedModel>> model =
      Fill(*file, flag, granted, hooks);
  if (!model.ok()) {
    if (const absl::Status lost = CheckDevice(); !lost.ok()) return lost;
  }
  if (!model.ok() && granted.lease.has_value()) {
    Release(*granted.lease, ShortfallBytes(model.status(), granted.plan));
  }
  return model;
}

absl::Status ModelLoader::CheckDevice() const {
  if (options_.compute == nullptr) return absl::OkStatus();
  const absl::Status status = options_.compute->Check();
  if (status.ok() || options_.on_device_lost == nullptr) return status;
  return options_.on_device_lost(status);
}

int64_t ModelLoader::ShortfallBytes(const absl::Status& status,
                                    const planner::MemoryPlan& plan) const {
  // With details it was our own check: strangers took the memory.
  if (!absl::IsResourceExhausted(status) || HasDetails(status)) return 0;
  return std::max(plan.arena_bytes - options_.profile().free_bytes,
                  plan.arena_bytes / kMinShortfallShare);
}

absl::StatusOr<ModelLoader::Granted> ModelLoader::PlanAlone(
    const worker::ModelFile& file, const planner::LoadOptions& options,
    const std::string& name, int64_t held_bytes) {
  const planner::DeviceProfile profile = options_.profile();
  const int64_t budget =
      std::min(profile.free_bytes,
               OwnLimit(options_, held_bytes).value_or(profile.free_bytes));
  Granted granted;
  ASSIGN_OR_RETURN(granted.plan,
                   planner::Layout(file.shape(), options, profile, budget));
  RETURN_IF_ERROR(worker::CheckRunnable(file.shape(), granted.plan));
  if (!granted.plan.fits) {
    return DoesNotFit(name, ToProto(granted.plan));
  }
  return granted;
}

absl::StatusOr<ModelLoader::Granted> ModelLoader::PlanAndReserve(
    const worker::ModelFile& file, const planner::LoadOptions& options,
    const std::string& name, int64_t held_bytes) {
  const std::string header = HeaderBytes(file.header(), file.shape().vocab);
  absl::Status refusal;
  for (int attempt = 0; attempt < kMaxReserveAttempts; ++attempt) {
    const planner::DeviceProfile profile = options_.profile();
    RETURN_IF_ERROR(client_->RegisterDevice(profile));
    ASSIGN_OR_RETURN(const v1::MemoryPlan wire,
                     client_->Plan(header, file.Size(), options,
                                   OwnLimit(options_, held_bytes), name));
    if (!wire.fits() && wire.not_runnable().empty()) {
      return DoesNotFit(name, wire);
    }
    // The worker lays out the same plan itself; the totals must agree.
    planner::LoadOptions exact = options;
    exact.n_ctx = wire.n_ctx();
    Granted granted;
    ASSIGN_OR_RETURN(granted.plan,
                     planner::Layout(file.shape(), exact, profile,
                                     static_cast<int64_t>(wire.total_bytes())));
    RETURN_IF_ERROR(worker::CheckRunnable(file.shape(), granted.plan));
    if (ToUint64(granted.plan.total_bytes) != wire.total_bytes() ||
        ToUint64(granted.plan.arena_bytes) != wire.arena_bytes()) {
      // Another worker may have registered its own runtime in between.
      refusal = absl::FailedPreconditionError(absl::StrCat(
          "the planner plans ", wire.total_bytes(), " bytes, this worker ",
          granted.plan.total_bytes, ": they are of different builds"));
      continue;
    }
    granted.plan.n_ctx_reason = wire.n_ctx_reason();
    absl::StatusOr<LeaseGrant> lease =
        client_->Reserve(RandomId(), name, granted.plan.total_bytes);
    if (lease.ok()) {
      granted.lease = *std::move(lease);
      return granted;
    }
    refusal = lease.status();
    if (refusal.code() != absl::StatusCode::kResourceExhausted) break;
  }
  return refusal;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelLoader::Fill(
    worker::ModelFile& file, const ModelFlag& flag, const Granted& granted,
    const LoadHooks& hooks) {
  auto model = std::make_unique<LoadedModel>();
  model->name = flag.name;
  model->architecture = file.shape().architecture;
  model->display_name = file.shape().name;
  model->n_ctx_train = file.shape().n_ctx_train;
  model->device_id = options_.device_id;
  model->lease = granted.lease;
  if (options_.chat_format.has_value()) {
    model->chat_format = worker::ChatFormatChoice{*options_.chat_format,
                                                  "the worker's --chat-format"};
  } else {
    model->chat_format = worker::ChooseChatFormat(file.header());
  }
  RETURN_IF_ERROR(
      CheckFree(flag.name, granted.plan, options_.profile().free_bytes));
  worker::EngineOptions engine{.precision = options_.precision,
                               .device = options_.compute,
                               .n_threads = options_.n_threads,
                               .clock = options_.clock,
                               .on_device_lost = options_.on_device_lost};
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
    return granted.lease.has_value() ? keeper_->Fence(granted.lease->id)
                                     : absl::OkStatus();
  };
  ASSIGN_OR_RETURN(model->engine,
                   worker::Engine::Load(file, granted.plan, engine, fence));
  RETURN_IF_ERROR(file.CheckUnchanged());
  RETURN_IF_ERROR(Confirm(*model));
  return model;
}

absl::Status ModelLoader::Confirm(const LoadedModel& model) {
  if (!model.lease.has_value()) return absl::OkStatus();
  const worker::MemoryReport memory = model.engine->Memory();
  const int64_t measured = memory.allocated_bytes +
                           (memory.vocab_on_device ? memory.vocab_bytes : 0);
  const int64_t bytes = std::min(measured, model.lease->bytes);
  RETURN_IF_ERROR(
      client_->Confirm(*model.lease, bytes, options_.profile().free_bytes));
  keeper_->Confirmed(model.lease->id, bytes);
  return absl::OkStatus();
}

void ModelLoader::Retire(const LeaseGrant& lease) {
  if (keeper_ != nullptr) keeper_->Retire(lease.id);
}

void ModelLoader::Release(const LeaseGrant& lease, int64_t shortfall_bytes) {
  if (client_ == nullptr) return;
  keeper_->Remove(lease.id);
  const absl::Status status = client_->Release(lease, shortfall_bytes);
  if (absl::IsUnavailable(status)) keeper_->ReleaseLater(lease);
  if (!status.ok()) {
    Log(absl::StrCat("a lease could not be released: ", status.message()));
    return;
  }
  // The planner's last reading still misses the bytes that just came free.
  client_->RegisterDevice(options_.profile()).IgnoreError();
}

}  // namespace plimsoll::services
