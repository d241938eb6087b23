// The embedded default: plan, load and generate in this process.
#include "services/cli/embedded.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/failure.h"
#include "services/cli/interrupt.h"
#include "services/cli/model_path.h"
#include "services/cli/progress.h"
#include "services/common/clock.h"
#include "services/common/runtime_key.h"
#include "services/common/to_proto.h"
#include "worker/device.h"
#include "worker/model.h"

namespace plimsoll::cli {
namespace {

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Says on stderr what the user may not expect of the plan.
void NotePlan(const LoadFlags& flags, const planner::MemoryPlan& plan,
              Streams& streams) {
  if (flags.n_ctx.kind == ContextFlag::Kind::kTokens &&
      plan.n_ctx != flags.n_ctx.tokens) {
    streams.err << "note: context of " << plan.n_ctx << " tokens instead of "
                << flags.n_ctx.tokens << ": " << Printable(plan.n_ctx_reason)
                << "\n";
  }
}

absl::StatusOr<std::optional<worker::ChatFormatChoice>> SettleChat(
    const worker::ModelFile& file, const ChatWish& wish, Streams& streams) {
  if (!wish.wanted) return std::nullopt;
  if (!wish.name.empty()) {
    const auto format = worker::ParseChatFormat(wish.name);
    if (!format.ok()) return UsageError(format.status().message());
    return worker::ChatFormatChoice{*format, "--chat-format"};
  }
  ASSIGN_OR_RETURN(worker::ChatFormatChoice choice,
                   worker::ChooseChatFormat(file.header()));
  if (!absl::StrContains(choice.reason, "file's template")) {
    streams.err << "note: chat format " << worker::ChatFormatName(choice.format)
                << ": " << Printable(choice.reason) << "\n";
  }
  return choice;
}

absl::StatusOr<std::unique_ptr<worker::Engine>> LoadEngine(
    worker::ModelFile& file, const std::string& name, const LoadFlags& flags,
    const planner::MemoryPlan& plan, const worker::ComputeDevice& device,
    Streams& streams) {
  worker::EngineOptions options;
  options.device = &device;
  options.precision = flags.precision == "exact" ? worker::Precision::kExact
                                                 : worker::Precision::kDefault;
  options.n_threads = static_cast<int>(flags.threads);
  if (!flags.shares_prefixes) options.prefix_cache_bytes = 0;
  options.clock = services::BootTime;
  Progress progress(name, services::BootTime(), streams);
  int64_t weight_bytes = 0;
  auto engine = worker::Engine::Load(
      file, plan, options, [&](const worker::LoadProgress& at) -> absl::Status {
        if (Interrupted()) return InterruptedError();
        if (at.phase == "allocate") return absl::OkStatus();
        // "ready" counts the whole arena; the bar is about what is read.
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
  options.n_draft = flags.draft_tokens;
  options.kv_tokens = flags.kv_tokens;
  options.n_ubatch = flags.n_ubatch;
  options.k_type = flags.kv.k;
  options.v_type = flags.kv.v;
  options.policy = flags.policy;
  options.allocation = flags.allocation;
  options.ring = flags.ring.rule;
  options.ring_tokens = flags.ring.tokens;
  options.flash_attention = !flags.no_flash_attention;
  options.weight_bytes = flags.weight_bytes;
  options.weight_type = flags.weight_type;
  options.host_weights = flags.host_weights;
  options.mmap_weights = flags.mmap_weights;
  options.host_budget_bytes = flags.host_memory;
  options.projector = flags.projector;
  return options;
}

absl::StatusOr<planner::MemoryPlan> PlanHere(
    const planner::ModelShape& shape, const LoadFlags& flags,
    ContextDefault context_default, const worker::ComputeDevice& device) {
  const int64_t n_threads =
      flags.threads > 0 ? flags.threads : worker::UsableThreads();
  const planner::DeviceProfile profile =
      device.is_host() ? services::LocalProfile({.n_threads = n_threads,
                                                 .n_slots = flags.slots,
                                                 .n_rows = flags.n_ubatch,
                                                 .n_vocab = shape.vocab_size})
                       : device.Profile();
  return planner::Layout(
      shape, ToLoadOptions(flags, shape.n_ctx_train, context_default), profile,
      flags.device_memory.value_or(profile.free_bytes));
}

absl::StatusOr<std::unique_ptr<worker::ComputeDevice>> OpenDevice(
    const std::string& name) {
  auto device = worker::OpenComputeDevice(name);
  if (device.ok()) return device;
  return UsageError(
      absl::StrCat("--device ", name, ": ", device.status().message()));
}

absl::StatusOr<LoadedModel> LoadHere(const std::string& model,
                                     const LoadFlags& flags,
                                     const ChatWish& chat, Streams& streams) {
  ASSIGN_OR_RETURN(const auto file, OpenModel(model));
  LoadedModel loaded;
  loaded.name = BaseName(ResolveModel(model));
  ASSIGN_OR_RETURN(loaded.device, OpenDevice(flags.device));
  ASSIGN_OR_RETURN(loaded.chat, SettleChat(*file, chat, streams));
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      PlanHere(file->shape(), flags, ContextDefault::kShort, *loaded.device));
  RETURN_IF_ERROR(worker::CheckRunnable(file->shape(), plan));
  if (!plan.fits) return DoesNotFit(services::ToProto(plan));
  NotePlan(flags, plan, streams);
  ASSIGN_OR_RETURN(loaded.engine, LoadEngine(*file, loaded.name, flags, plan,
                                             *loaded.device, streams));
  return loaded;
}

}  // namespace plimsoll::cli
