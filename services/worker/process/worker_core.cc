#include "services/worker/process/worker_core.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/check_threads.h"
#include "services/host/log.h"
#include "services/host/runtime/runtime_key.h"
#include "services/server/server.h"
#include "services/wire/errors.h"
#include "worker/device/compute_device.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {
namespace {

// Clients have this long to receive the ends of their streams.
constexpr absl::Duration kLossGrace = absl::Seconds(2);
// Each of several devices has this long to say whether it is lost.
constexpr absl::Duration kLossPatience = absl::Seconds(2);

// Threads of a worker beside its transport's, its pool's and those that a model
// computes on: the monitor, the keeper, the guard, two of the watch over hangs;
// of a load the loader, the reader and the steps.
constexpr int kOwnThreads = 8;

// What streams end with.
absl::Status DeviceLost(const absl::Status& error) {
  return WithDetails(
      absl::UnavailableError(
          absl::StrCat("the worker's device is lost, and the worker ends: ",
                       error.message())),
      {v1::ERROR_REASON_DEVICE_UNHEALTHY, {}, PlannerClient::kRetryDelay});
}

std::vector<Accelerator> AcceleratorsOf(const WorkerOptions& options) {
  std::vector<Accelerator> found;
  for (const WorkerDevice& device : options.devices) {
    if (device.compute->is_host()) continue;
    found.push_back({device.id, device.compute, device.profile()});
  }
  return found;
}

// Finds the lost ones of `devices`, of which at least one was just lost.
std::vector<Accelerator> LostOnes(const std::vector<Accelerator>& devices) {
  if (devices.size() == 1) return devices;
  std::vector<std::function<absl::Status()>> checks;
  checks.reserve(devices.size());
  for (const Accelerator& device : devices) {
    checks.push_back([compute = device.compute] { return compute->Check(); });
  }
  std::vector<Accelerator> lost;
  for (const size_t i : FindLost(checks, kLossPatience)) {
    lost.push_back(devices[i]);
  }
  return lost;
}

// Whether the CPU computes experts of a model that lies on another device.
bool HasCpuExperts(ModelRegistry& registry) {
  bool has_experts = false;
  registry.Visit([&has_experts](const LoadedModel& model, ModelState) {
    has_experts |= model.engine->plan().HasCpuExperts();
  });
  return has_experts;
}

// What a driver takes of the host is its devices' doing: such a process is
// measured apart from those on the CPU alone.
RuntimeMonitor::Options MonitorOptions(
    const WorkerOptions& options,
    const std::vector<Accelerator>& accelerators) {
  ByteBudget* const messages = options.messages;
  planner::DeviceProfile host = worker::LocalCpuProfile();
  for (const Accelerator& device : accelerators) {
    absl::StrAppend(&host.name, " + ", device.profile.kind);
  }
  return {.folder = options.profile_folder,
          .key = RuntimeKeyOf(host, OwnProgram()),
          .load = {.n_threads = options.n_threads > 0 ? options.n_threads
                                                      : worker::UsableThreads(),
                   .n_slots = options.load.n_slots,
                   .n_rows = options.load.n_ubatch},
          .memory = OwnMemory(),
          .device =
              [] {
                planner::DeviceProfile profile = worker::LocalCpuProfile();
                profile.message_bytes = kPlannedMessageBytes;
                return profile;
              },
          .traffic = [messages] { return messages->traffic(); }};
}

void TellPlanner(const std::vector<Accelerator>& devices, PlannerClient* client,
                 LeaseKeeper* keeper) {
  if (client == nullptr) return;
  keeper->Stop();
  for (Accelerator device : LostOnes(devices)) {
    device.profile.free_bytes = 0;
    const absl::Status status =
        client->RegisterDevice(device.id, std::move(device.profile),
                               /*is_unhealthy=*/true);
    if (status.ok()) continue;
    Log(LogLevel::kWarning, "the planner was not told of a device",
        {{"device", device.id}, {"error", std::string(status.message())}});
  }
}

// What the devices say of themselves, naming the one that fails.
absl::Status CheckAll(const std::vector<Accelerator>& devices) {
  for (const Accelerator& device : devices) {
    const absl::Status status = device.compute->Check();
    if (status.ok()) continue;
    return devices.size() == 1
               ? status
               : absl::Status(status.code(),
                              absl::StrCat(device.id, ": ", status.message()));
  }
  return absl::OkStatus();
}

// The first of the devices that is the host; null if none is.
WorkerDevice* HostOf(std::vector<WorkerDevice>& devices) {
  const auto host = std::find_if(
      devices.begin(), devices.end(),
      [](const WorkerDevice& device) { return device.compute->is_host(); });
  return host == devices.end() ? nullptr : &*host;
}

}  // namespace

int WorkerThreads(const WorkerOptions& options, int n_transport) {
  const int n_compute =
      options.n_threads > 0 ? options.n_threads : worker::UsableThreads();
  const int n_expiry = options.on_demand ? 1 : 0;
  const int n_usage = options.usage_file.empty() ? 0 : 1;
  return n_transport + WorkPool::kMaxThreads + kOwnThreads + n_expiry +
         n_usage + n_compute;
}

absl::Status CheckWorkerThreads(const WorkerOptions& options, int n_transport) {
  return CheckThreads(WorkerThreads(options, n_transport));
}

WorkerCore::WorkerCore(const WorkerOptions& options)
    : log_(LogObserver::RequestsOf(options)),
      accelerators_(AcceleratorsOf(options)),
      has_host_(accelerators_.size() < options.devices.size()),
      hang_timeout_(options.hang_timeout) {}

absl::StatusOr<std::unique_ptr<WorkerCore>> WorkerCore::Start(
    WorkerOptions options) {
  std::unique_ptr<WorkerCore> core(new WorkerCore(options));
  options.messages = &core->messages_;
  if (!options.holder_file.empty()) {
    ASSIGN_OR_RETURN(core->holder_file_,
                     HolderFile::Open(options.holder_file, OwnIdentity()));
  }
  if (!options.usage_file.empty()) {
    ASSIGN_OR_RETURN(core->usage_, UsageFile::Open(options.usage_file));
  }
  if (!options.quota_file.empty() || core->usage_ != nullptr) {
    ASSIGN_OR_RETURN(
        core->quotas_,
        QuotaBook::Open(options.quota_file, options.clock, core->usage_.get()));
    options.quotas = core->quotas_.get();
  }
  if (options.observer == nullptr) options.observer = &core->log_;
  WorkerDevice* const host = HostOf(options.devices);
  std::optional<RuntimeMonitor>& runtime = core->runtime_;
  if (host != nullptr) {
    runtime.emplace(MonitorOptions(options, core->accelerators_));
    options.runtime = &*runtime;
    host->profile = [&runtime] { return runtime->Profile(); };
  }
  if (!options.planner.empty()) {
    HolderHistory history;
    if (core->holder_file_ != nullptr) history = core->holder_file_->history();
    core->client_ = std::make_unique<PlannerClient>(
        options.planner, LeaseHolder{options.holder, std::move(history)},
        options.clock, options.planner_security);
    // Before the first plan, which may take all that is free. If the planner
    // does not answer now, the keeper asks it later.
    core->client_->ReleaseFormer().IgnoreError();
    core->keeper_ = std::make_unique<LeaseKeeper>(
        *core->client_, options.devices, options.clock, options.observer);
    if (runtime.has_value()) {
      runtime->SetListener(
          [client = core->client_.get(), &runtime, id = host->id] {
            // If the planner does not answer, the next load tells it.
            if (client->is_silent()) return;
            client->RegisterDevice(id, runtime->Profile()).IgnoreError();
          });
    }
  }
  if (!core->accelerators_.empty()) {
    options.on_device_lost = [&guard =
                                  core->guard_](const absl::Status& error) {
      guard.Report(error);
      return DeviceLost(error);
    };
  }
  core->registry_ = std::make_unique<ModelRegistry>(
      std::move(options), core->client_.get(), core->keeper_.get());
  if (core->registry_->loads_on_demand()) {
    core->expiry_.emplace(*core->registry_);
  }
  ASSIGN_OR_RETURN(core->pool_, WorkPool::Start());
  return core;
}

void WorkerCore::WatchDevices(const std::function<void()>& set_unready) {
  if (accelerators_.empty()) return;
  guard_.Watch({.longest_step = [this] { return registry_->LongestStep(); },
                .probe = [this] { return CheckAll(accelerators_); },
                .on_lost =
                    [this, set_unready](const absl::Status& error) {
                      OnLost(error, set_unready);
                    },
                .max_step =
                    [this] {
                      return has_host_ || HasCpuExperts(*registry_)
                                 ? DeviceGuard::kMaxStepWithHost
                                 : DeviceGuard::kMaxStep;
                    }});
}

void WorkerCore::WatchHangs(std::function<void(bool is_alive)> set_alive) {
  hangs_.Watch({.longest_stall = [this] { return registry_->LongestStall(); },
                .lock = "the lock of the models",
                .limit = hang_timeout_,
                .on_change =
                    [this, set_alive = std::move(set_alive)](bool is_alive) {
                      is_alive_ = is_alive;
                      set_alive(is_alive);
                    }});
}

void WorkerCore::OnLost(const absl::Status& error,
                        const std::function<void()>& set_unready) {
  const absl::Status reason = DeviceLost(error);
  Log(LogLevel::kError, reason.message());
  set_unready();
  registry_->AbortAll(reason);
  TellPlanner(accelerators_, client_.get(), keeper_.get());
  // Streams that ended are read to their ends; what hangs is not waited for.
  gate_.Close();
  gate_.AwaitIdle(kLossGrace);
  FlushLog();
  std::_Exit(kExitDeviceLost);
}

void WorkerCore::AbortCalls() {
  pool_->Abort();
  registry_->AbortAll();
}

void WorkerCore::End() {
  if (runtime_.has_value()) runtime_->SampleStopped();
  expiry_.reset();
  registry_->UnloadAll();
  guard_.Stop();
  hangs_.Stop();
}

}  // namespace plimsoll::services
