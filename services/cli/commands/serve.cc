// `plimsoll serve`: planner, models and the HTTP front in one process.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/commands/commands.h"
#include "services/cli/commands/serve_flags.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/progress.h"
#include "services/host/background.h"
#include "services/host/clock.h"
#include "services/host/crash/core_dumps.h"
#include "services/host/crash/memory_failure.h"
#include "services/host/device_list.h"
#include "services/host/heap.h"
#include "services/host/lock_checks.h"
#include "services/host/log.h"
#include "services/host/runtime/runtime_store.h"
#include "services/http/front/front.h"
#include "services/http/local/local_models.h"
#include "services/http/local/local_planner.h"
#include "services/http/response_store.h"
#include "services/metrics/worker_metrics.h"
#include "services/server/call_guard.h"
#include "services/server/flags.h"
#include "services/server/server.h"
#include "services/server/token_file.h"
#include "services/settings/settings.h"
#include "services/settings/settings_flags.h"
#include "services/tracing/tracer.h"
#include "services/wire/errors.h"
#include "services/worker/models/observer_list.h"
#include "services/worker/process/worker_core.h"
#include "services/worker/process/worker_devices.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kServeDescription[] =
    "Serve models over HTTP to the clients of OpenAI, Anthropic and Ollama\n"
    "Plans and loads the models in this process and listens on 127.0.0.1:8080. "
    "If a model does not fit beside earlier ones, it is loaded when a request "
    "asks for it. Others are then unloaded until it fits, those that have been "
    "unused for longest first. Without --n-ctx a slot has the context that the "
    "model was trained for, at most 4096 tokens. docs/http.md has the paths "
    "and their parameters. Exit code 3 if the first model, or a pinned one, "
    "does not fit.";

constexpr char kServeFooter[] =
    "Examples:\n"
    "  plimsoll serve model.gguf\n"
    "  plimsoll serve SmolLM2-135M-Instruct.Q4_1 --slots 8 --n-ctx 8192\n"
    "  plimsoll serve models/ --listen 127.0.0.1:0 --device-memory 12GiB\n"
    "  plimsoll serve models/ --pin assistant --keep-alive 300\n"
    "  plimsoll serve model.gguf --listen 0.0.0.0:8080 --tokens tokens.json "
    "\\\n"
    "    --tls-cert tls/server.pem --tls-key tls/server-key.pem";

// The HTTP server's thread, and those of the command itself.
constexpr int kFrontThreads = 2;

absl::Status CheckServeFlags(const ServeFlags& flags,
                             const GlobalFlags& globals) {
  if (!globals.address.empty()) {
    return UsageError(
        "serve loads models in this process; leave out --address");
  }
  if (flags.models.empty()) {
    const std::vector<std::string> cached = CachedModels();
    return UsageError(absl::StrCat(
        "there is no model; give files, names in the cache or folders",
        cached.empty() ? "" : "; the cache has ",
        absl::StrJoin(cached, ", ",
                      [](std::string* out, const std::string& path) {
                        out->append(fs::path(path).stem().string());
                      })));
  }
  const absl::Status tenants = services::CheckTenantFlags(
      flags.quotas, flags.usage_file, !flags.tokens.empty());
  if (!tenants.ok()) return UsageError(tenants.message());
  const absl::Status listen =
      services::CheckListen({.listen = flags.http.listen,
                             .allow_insecure = flags.is_insecure,
                             .tls = flags.http.tls,
                             .tokens = flags.tokens});
  return listen.ok() ? listen : UsageError(listen.message());
}

// Waits for one load. Shared with the registry, which may keep it for longer.
class LoadWait final : public services::LoadWatcher {
 public:
  void OnProgress(const services::LoadReport& report) override {
    SteadyMutexLock lock(&mu_);
    if (report.bytes_total.has_value()) {
      done_bytes_ = report.bytes_done.value_or(0);
      total_bytes_ = *report.bytes_total;
    }
    if (!report.parts.empty()) parts_ = report.parts;
  }
  void OnLoadEnd(const absl::Status& status) override {
    SteadyMutexLock lock(&mu_);
    end_ = status;
  }

  // Returns the model's parts with their plans once it is loaded. Errors: those
  // of the load; InterruptedError.
  absl::StatusOr<std::vector<services::PlannedPart>> Await(Progress& progress) {
    SteadyMutexLock lock(&mu_);
    const auto has_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return end_.has_value();
    };
    while (!mu_.AwaitFor(absl::Condition(&has_ended), kInterruptPoll)) {
      if (Interrupted()) return InterruptedError();
      if (total_bytes_ == 0) continue;
      progress.Update(done_bytes_, total_bytes_, services::BootTime());
    }
    RETURN_IF_ERROR(*end_);
    if (total_bytes_ > 0) {
      progress.Update(total_bytes_, total_bytes_, services::BootTime());
    }
    return parts_;
  }

 private:
  SteadyMutex mu_;
  int64_t done_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t total_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<services::PlannedPart> parts_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

// Says that the plan fits and what it is: "fits: 231.9 MiB of 2.0 GiB, 4 slots
// of 4,096 tokens".
std::string Verdict(const std::vector<services::PlannedPart>& parts,
                    int64_t n_slots) {
  int64_t total = 0;
  int64_t budget = 0;
  for (const services::PlannedPart& part : parts) {
    total += part.plan.total_bytes;
    budget += part.plan.budget_bytes;
  }
  const planner::MemoryPlan& plan = parts.front().plan;
  return absl::StrCat("fits: ", FormatBytes(total), " of ", FormatBytes(budget),
                      ", ", n_slots, n_slots == 1 ? " slot of " : " slots of ",
                      FormatCount(plan.n_ctx), " tokens (",
                      Printable(plan.n_ctx_reason), ")");
}

// Tells people which models came and went for requests. Thread-safe.
class LoadNews final : public services::WorkerObserver {
 public:
  explicit LoadNews(Streams& streams) : streams_(streams) {}

  // Before, LoadAll says what is loaded; afterwards all models go.
  void Begin() { is_on_ = true; }
  void End() { is_on_ = false; }

  void OnLoadEnd(const services::LoadRecord& load) override {
    if (!is_on_) return;
    const std::string seconds =
        absl::StrFormat("%.1f s", absl::ToDoubleSeconds(load.time));
    Say(load.status.ok()
            ? absl::StrCat(load.model, " is ready after ", seconds, ": ",
                           FormatBytes(load.total_bytes), ", ", load.note)
            : absl::StrCat(load.model,
                           " was not loaded: ", load.status.message()));
  }
  void OnUnload(const std::string& model) override {
    if (is_on_) Say(absl::StrCat(model, " is unloaded"));
  }

 private:
  void Say(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    streams_.err << Printable(line) << "\n" << std::flush;
  }

  std::atomic<bool> is_on_ = false;
  absl::Mutex mu_;
  Streams& streams_;
};

// Loads a model, if it fits beside those that are loaded.
absl::Status LoadOne(const services::ModelFlag& model,
                     const planner::LoadOptions& load,
                     services::ModelRegistry& registry, Streams& streams) {
  const auto wait = std::make_shared<LoadWait>();
  std::optional<Progress> progress;
  progress.emplace(Work{.name = model.name}, services::BootTime(), streams);
  RETURN_IF_ERROR(
      registry.Load(model.name, load, wait, services::IfFull::kRefuse));
  ASSIGN_OR_RETURN(const std::vector<services::PlannedPart> parts,
                   wait->Await(*progress));
  progress.reset();  // ends its line
  streams.err << model.name << " " << Verdict(parts, load.n_slots) << "\n";
  return absl::OkStatus();
}

// Loads the pinned models, the first of the others, and what fits beside them.
absl::Status LoadAll(const services::WorkerOptions& options,
                     services::ModelRegistry& registry, Streams& streams) {
  std::vector<services::ModelFlag> models = options.models;
  std::stable_partition(models.begin(), models.end(),
                        [&options](const services::ModelFlag& model) {
                          return options.IsPinned(model.name);
                        });
  for (const services::ModelFlag& model : models) {
    absl::Status status = LoadOne(model, options.load, registry, streams);
    if (status.ok()) continue;
    const bool may_wait = &model != &models.front() &&
                          !options.IsPinned(model.name) &&
                          services::DetailsOf(status).reason ==
                              v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED;
    if (!may_wait) return status;
    streams.err << model.name
                << " is loaded when a request asks for it: " << status.message()
                << "\n";
  }
  return absl::OkStatus();
}

// What curl needs to know, beside the address.
std::string CurlFlags(const ServeFlags& flags) {
  std::string words;
  if (flags.http.tls.is_on()) words += " --cacert CA.pem";
  if (!flags.http.tls.client_ca.empty()) {
    words += " --cert CLIENT.pem --key CLIENT-KEY.pem";
  }
  if (!flags.tokens.empty()) {
    words += " -H \"Authorization: Bearer $PLIMSOLL_TOKEN\"";
  }
  return words;
}

void Announce(const std::string& address, const ServeFlags& flags,
              const std::string& model, Streams& streams) {
  const std::string url =
      absl::StrCat(flags.http.tls.is_on() ? "https://" : "http://", address);
  streams.out << "listening on " << url << "\n"
              << "try: curl" << CurlFlags(flags) << " " << url
              << "/v1/chat/completions -d '{\"model\": \"" << model
              << "\", \"messages\": [{\"role\": \"user\", \"content\": \"Why "
                 "is the sea salty?\"}]}'\n"
              << std::flush;
}

services::WorkerOptions ToWorkerOptions(const ServeFlags& flags) {
  services::WorkerOptions options;
  // Longer contexts than the trained one are cut to it.
  options.load = ToLoadOptions(flags.load, std::numeric_limits<int32_t>::max(),
                               ContextDefault::kShort);
  options.precision = flags.load.precision;
  options.n_threads = static_cast<int>(flags.load.threads);
  options.drain_timeout = absl::Seconds(flags.drain_s);
  options.clock = services::BootTime;
  options.profile_folder = services::DefaultProfileFolder();
  options.quota_file = flags.quotas;
  options.usage_file = flags.usage_file;
  options.preemption = flags.preemption;
  options.hang_timeout = flags.hang_timeout;
  options.on_demand = true;
  options.pinned = flags.pinned;
  if (flags.keep_alive_s.has_value()) {
    options.keep_alive = absl::Seconds(*flags.keep_alive_s);
  }
  return options;
}

// Returns at the signal that ends the server.
void AwaitInterrupt(const std::function<void()>& on_hangup) {
  while (!Interrupted()) {
    absl::SleepFor(kInterruptPoll);
    if (TakeHangup()) services::Reread(on_hangup);
  }
}

// Serves until a signal comes. The devices of `options` outlive it. `args` are
// those of the command line.
absl::Status Serve(const ServeFlags& flags,
                   const std::vector<std::string>& args,
                   services::WorkerOptions options, Streams& streams) {
  ASSIGN_OR_RETURN(const auto log,
                   services::LogThread::Start(flags.log, STDERR_FILENO));
  const int n_tracing =
      flags.tracing.endpoint.empty()
          ? 0
          : services::GrpcThreads() + services::TracingThreads(flags.tracing);
  RETURN_IF_ERROR(services::CheckWorkerThreads(
      options, kFrontThreads + services::LocalPlanner::kThreads + n_tracing));
  ASSIGN_OR_RETURN(const auto tracer,
                   services::Tracer::Start(flags.tracing, "plimsoll-serve"));
  services::WorkerMetrics metrics(options);
  LoadNews news(streams);
  services::ObserverList observers({&metrics, &news});
  options.observer = &observers;
  services::ResponseStore responses;
  ASSIGN_OR_RETURN(const auto core, services::WorkerCore::Start(options));
  ASSIGN_OR_RETURN(const auto planner, services::LocalPlanner::Create(
                                           options.models, options.devices));
  services::LocalModels models(core->registry(), planner.get());
  if (!flags.tokens.empty()) {
    auto tokens = services::TokenFile::Open(flags.tokens, absl::Now);
    if (!tokens.ok()) return UsageError(tokens.status().message());
    core->gate().SetGuard(
        std::make_shared<services::CallGuard>(*std::move(tokens), absl::Now));
  }
  ASSIGN_OR_RETURN(const auto front,
                   services::Front::Start(
                       flags.http,
                       {models, core->gate(), core->pool(), responses,
                        [&core] { return core->IsAlive(); }},
                       [&metrics, &core](bool is_ready) {
                         return metrics.Text(core->registry(), is_ready,
                                             core->gate().auth_failures());
                       }));
  core->WatchDevices([&front] { front->SetReady(false); });
  core->WatchHangs([](bool /*is_alive*/) {});  // /livez asks the core
  std::optional<services::MemoryFailureScope> serves(
      services::MemoryFailure::kThrows);
  absl::Status status = LoadAll(options, core->registry(), streams);
  if (status.ok()) {
    front->SetReady(true);
    Announce(front->address(), flags, options.models.front().name, streams);
    news.Begin();
    AwaitInterrupt([&, in_effect = flags.settings]() mutable {
      ReloadServe(ReadServeFlagsAgain(args), core->registry(), *planner,
                  in_effect);
    });
    news.End();
  }
  serves.reset();
  front->Drain(status.ok() ? options.drain_timeout : absl::ZeroDuration(),
               [&core] { core->AbortCalls(); });
  core->End();
  return status;
}

absl::Status RunServe(const ServeFlags& flags, const Commands& commands) {
  if (flags.settings.is_printed) {
    commands.streams.out << services::PrintSettings(flags.settings);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckServeFlags(flags, commands.globals));
  if (!flags.allows_core_dumps) services::ForbidCoreDumps();
  services::KeepHeapSmall();
  services::DisableLockChecks();
  services::WorkerOptions options = ToWorkerOptions(flags);
  ASSIGN_OR_RETURN(options.models, FindModels(flags.models));
  RETURN_IF_ERROR(CheckPinned(options));
  RETURN_IF_ERROR(MemoryOfEach(flags.load, flags.load.devices.size()).status());
  const InterruptScope interrupts(flags.settings.path.empty() ? Hangup::kEnds
                                                              : Hangup::kNoted);
  ASSIGN_OR_RETURN(const services::ComputeDevices devices,
                   OpenDevices(flags.load.devices, flags.load));
  std::vector<const worker::ComputeDevice*> opened;
  for (const auto& device : devices) opened.push_back(device.get());
  ASSIGN_OR_RETURN(
      options.devices,
      services::DescribeDevices({.names = flags.load.devices,
                                 .memory_bytes = flags.load.device_memory,
                                 .ids = ""},
                                "", opened));
  return services::NeedsThreads([&] {
    return Serve(flags, commands.args, std::move(options), commands.streams);
  });
}

}  // namespace

void AddServe(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("serve", kServeDescription);
  command->footer(kServeFooter);
  auto flags = std::make_shared<ServeFlags>();
  AddServeFlags(*command, *flags);
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunServe(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
