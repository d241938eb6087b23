// The default backend: it plans, loads and generates in this process.
#include "services/cli/backends/embedded.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/backends/plan_many.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/progress.h"
#include "services/generation/message_bytes.h"
#include "services/host/clock.h"
#include "services/host/crash/bus_error.h"
#include "services/host/runtime/runtime_key.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"
#include "worker/device/load_fence.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::cli {
namespace {

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Prints on stderr what the user may not expect of the plan.
void NotePlan(const LoadFlags& flags, const planner::MemoryPlan& plan,
              Streams& streams) {
  if (flags.n_ctx.kind == ContextFlag::Kind::kTokens &&
      plan.n_ctx != flags.n_ctx.tokens) {
    streams.err << "note: context of " << plan.n_ctx << " tokens instead of "
                << flags.n_ctx.tokens << ": " << Printable(plan.n_ctx_reason)
                << "\n";
  }
  if (!plan.cpu_experts_reason.empty()) {
    streams.err << "note: " << Printable(plan.cpu_experts_reason) << "\n";
  }
}

// Finds how `loaded` renders conversations.
absl::Status SetChatFormat(const worker::ModelFile& file, const ChatWish& wish,
                           Streams& streams, LoadedModel& loaded) {
  if (!wish.wanted) return absl::OkStatus();
  if (!wish.name.empty()) {
    const auto format = worker::ParseChatFormat(wish.name);
    if (!format.ok()) return UsageError(format.status().message());
    loaded.chat = worker::ChatFormatChoice{*format, "--chat-format"};
    return absl::OkStatus();
  }
  auto choice = worker::ChooseChatFormat(file.header());
  if (!choice.ok()) {
    ASSIGN_OR_RETURN(loaded.own_template,
                     worker::ModelTemplate::Load(file.header()));
    if (loaded.own_template != nullptr) return absl::OkStatus();
  }
  RETURN_IF_ERROR(choice.status());
  if (!absl::StrContains(choice->reason, "file's template")) {
    streams.err << "note: chat format "
                << worker::ChatFormatName(choice->format) << ": "
                << Printable(choice->reason) << "\n";
  }
  loaded.chat = *std::move(choice);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<worker::Engine>> LoadEngine(
    worker::ModelFile& file, const LoadFlags& flags,
    std::vector<worker::EnginePart> parts, Progress& progress) {
  worker::EngineOptions options;
  options.device = parts.front().device;
  options.precision = flags.precision;
  options.n_threads = static_cast<int>(flags.threads);
  if (!flags.shares_prefixes) options.prefix_cache_bytes = 0;
  options.clock = services::BootTime;
  if (flags.mmap_weights || flags.host_tables) services::EndOnBusError();
  int64_t weight_bytes = 0;
  auto engine = worker::Engine::Load(
      file, std::move(parts), options,
      [&](const worker::LoadProgress& at) -> absl::Status {
        if (Interrupted()) return InterruptedError();
        if (at.phase == "allocate") return absl::OkStatus();
        // "ready" counts the whole arena, but the bar shows what is read.
        const bool is_ready = at.phase == "ready";
        if (!is_ready) weight_bytes = at.bytes_total;
        progress.Update(is_ready ? weight_bytes : at.bytes_done, weight_bytes,
                        services::BootTime());
        return absl::OkStatus();
      });
  if (engine.status().code() == absl::StatusCode::kResourceExhausted) {
    return DoesNotFit(engine.status().message());
  }
  return engine;
}

}  // namespace

planner::LoadOptions ToLoadOptions(const LoadFlags& flags, int64_t n_ctx_train,
                                   ContextDefault context_default) {
  planner::LoadOptions options;
  switch (flags.n_ctx.kind) {
    case ContextFlag::Kind::kDefault:
      if (context_default == ContextDefault::kShort) {
        options.n_ctx = std::min(n_ctx_train, kDefaultContext);
      }
      break;
    case ContextFlag::Kind::kTokens:
      options.n_ctx = flags.n_ctx.tokens;
      break;
    case ContextFlag::Kind::kAuto:
      break;
    case ContextFlag::Kind::kMax:
      options.n_ctx = n_ctx_train;
      break;
  }
  options.max_inference_len = flags.max_inference_len;
  options.n_slots = flags.slots;
  options.draft_source = flags.draft_source;
  options.n_draft = flags.draft_tokens.value_or(
      flags.draft_source == planner::DraftSource::kMtp
          ? planner::LoadOptions::kMtpDraftTokens
          : 0);
  options.kv_tokens = flags.kv_tokens;
  options.n_idle_sessions = flags.idle_sessions;
  options.idle_session_bytes = flags.idle_session_bytes;
  options.n_parked = flags.parked_slots;
  options.n_cpu_experts = flags.cpu_experts;
  options.n_ubatch = flags.n_ubatch;
  options.k_type = flags.kv.k;
  options.v_type = flags.kv.v;
  options.host_tables = flags.host_tables;
  options.mmap_weights = flags.mmap_weights;
  options.host_budget_bytes = flags.host_memory;
  return options;
}

planner::PlanOptions ToPlanOptions(const LoadFlags& flags, int64_t n_ctx_train,
                                   ContextDefault context_default) {
  return {ToLoadOptions(flags, n_ctx_train, context_default),
          {.policy = flags.policy,
           .ring = flags.ring.rule,
           .ring_tokens = flags.ring.tokens,
           .flash_attention = !flags.no_flash_attention,
           .allocation = flags.allocation,
           .weight_bytes = flags.weight_bytes,
           .weight_type = flags.weight_type,
           .host_weights = flags.host_weights,
           .projector = flags.projector}};
}

planner::SplitDevice BudgetHere(const planner::ModelShape& shape,
                                const LoadFlags& flags,
                                const worker::ComputeDevice& device,
                                std::optional<int64_t> budget_bytes) {
  const int64_t n_threads =
      flags.threads > 0 ? flags.threads : worker::UsableThreads();
  planner::DeviceProfile profile =
      device.is_host() ? services::LocalProfile({.n_threads = n_threads,
                                                 .n_slots = flags.slots,
                                                 .n_rows = flags.n_ubatch,
                                                 .n_vocab = shape.vocab_size})
                       : device.Profile();
  const int64_t free_bytes = profile.free_bytes;
  return {std::move(profile), budget_bytes.value_or(free_bytes)};
}

int64_t PlanAsWorker(const planner::RuntimeLoad& load,
                     planner::DeviceProfile& profile) {
  profile.message_bytes = services::kPlannedMessageBytes;
  if (profile.kind == "cpu") {
    planner::ApplyRuntime(/*measured=*/nullptr, load, profile);
  }
  return planner::EstimatedRuntimeBytes(load);
}

absl::StatusOr<services::ComputeDevices> OpenDevices(
    const std::vector<std::string>& names, const LoadFlags& flags) {
  auto devices = services::OpenDevices(names, flags.precision);
  if (devices.ok()) return devices;
  return UsageError(devices.status().message());
}

absl::StatusOr<std::vector<std::optional<int64_t>>> MemoryOfEach(
    const LoadFlags& flags, size_t n_devices) {
  auto memory = services::MemoryOfEach(flags.device_memory, n_devices);
  if (memory.ok()) return memory;
  return UsageError(memory.status().message());
}

namespace {

// Chooses which layers go on which device. If there is one device, it gets the
// whole model.
absl::StatusOr<std::vector<planner::SplitPart>> Place(
    const planner::ModelShape& shape, const LoadFlags& flags,
    const services::ComputeDevices& devices, Streams& streams) {
  ASSIGN_OR_RETURN(const auto memory, MemoryOfEach(flags, devices.size()));
  planner::LoadOptions options =
      ToLoadOptions(flags, shape.n_ctx_train, ContextDefault::kShort);
  options.host_budget_bytes = worker::HostBudgetBytes(
      options, devices.size() == 1 ? devices.front().get() : nullptr);
  std::vector<planner::SplitDevice> budgets;
  for (size_t i = 0; i < devices.size(); ++i) {
    budgets.push_back(BudgetHere(shape, flags, *devices[i], memory[i]));
  }
  std::vector<planner::SplitPart> parts;
  if (devices.size() == 1) {
    const planner::SplitDevice& device = budgets.front();
    ASSIGN_OR_RETURN(
        planner::MemoryPlan plan,
        planner::Layout(shape, {options}, device.profile, device.budget_bytes));
    RETURN_IF_ERROR(worker::CheckRunnable(shape, plan));
    if (!plan.fits) return DoesNotFit(services::ToProto(plan));
    NotePlan(flags, plan, streams);
    parts.push_back({0, 0, shape.n_layers, std::move(plan)});
    return parts;
  }
  ASSIGN_OR_RETURN(planner::SplitPlan split,
                   planner::SplitLayers(shape, {options}, budgets));
  for (const planner::SplitPart& part : split.parts) {
    RETURN_IF_ERROR(worker::CheckRunnable(shape, part.plan));
  }
  if (!split.fits) {
    return DoesNotFit(services::ToProto(split, budgets), flags.devices);
  }
  NotePlan(flags, split.parts.front().plan, streams);
  for (const planner::SplitPart& part : split.parts) {
    streams.err << "note: layers " << part.first_layer << "-"
                << part.first_layer + part.n_layers - 1 << " on "
                << flags.devices[static_cast<size_t>(part.device)] << ": "
                << FormatBytes(part.plan.total_bytes) << "\n";
  }
  return std::move(split.parts);
}

// Reports first if the model cannot run here, because no other flag would help.
absl::StatusOr<std::unique_ptr<worker::ModelFile>> OpenRunnable(
    const std::string& model) {
  ASSIGN_OR_RETURN(auto file, OpenModel(model));
  const absl::Status status = worker::CheckArchitecture(file->shape());
  if (status.ok()) return file;
  return absl::Status(status.code(), absl::StrCat(status.message(),
                                                  "; to plan it: plimsoll "
                                                  "plan ",
                                                  Printable(model)));
}

// Returns a model that is to be loaded on `devices`.
LoadedModel NotLoaded(const std::string& model,
                      services::ComputeDevices devices) {
  LoadedModel loaded;
  loaded.name = BaseName(ResolveModel(model));
  loaded.devices = std::move(devices);
  return loaded;
}

// Loads `file` into `loaded`, which has its name and its devices.
absl::StatusOr<LoadedModel> LoadFile(worker::ModelFile& file,
                                     LoadedModel loaded, const LoadWish& wish,
                                     Streams& streams) {
  RETURN_IF_ERROR(SetChatFormat(file, wish.chat, streams, loaded));
  ASSIGN_OR_RETURN(const std::vector<planner::SplitPart> placed,
                   Place(file.shape(), wish.flags, loaded.devices, streams));
  std::vector<worker::EnginePart> parts;
  for (const planner::SplitPart& part : placed) {
    const auto device = static_cast<size_t>(part.device);
    loaded.used.push_back(loaded.devices[device].get());
    loaded.used_names.push_back(wish.flags.devices[device]);
    parts.push_back(
        {loaded.used.back(), part.first_layer, part.n_layers, part.plan});
  }
  Progress progress({.name = loaded.name}, services::BootTime(), streams);
  ASSIGN_OR_RETURN(loaded.engine,
                   LoadEngine(file, wish.flags, std::move(parts), progress));
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadHere(const std::string& model,
                                     const LoadWish& wish, Streams& streams) {
  const LoadFlags& flags = wish.flags;
  // Opening a device takes a second, so mistakes are reported before.
  RETURN_IF_ERROR(MemoryOfEach(flags, flags.devices.size()).status());
  ASSIGN_OR_RETURN(const auto file, OpenRunnable(model));
  ASSIGN_OR_RETURN(services::ComputeDevices devices,
                   OpenDevices(flags.devices, flags));
  return LoadFile(*file, NotLoaded(model, std::move(devices)), wish, streams);
}

absl::StatusOr<LoadedModel> LoadOn(services::ComputeDevices devices,
                                   const std::string& model,
                                   const LoadWish& wish, Streams& streams) {
  ASSIGN_OR_RETURN(const auto file, OpenRunnable(model));
  return LoadFile(*file, NotLoaded(model, std::move(devices)), wish, streams);
}

}  // namespace plimsoll::cli
