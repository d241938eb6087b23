#include "services/cli/doctor/doctor.h"

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/cli/doctor/clock_check.h"
#include "services/cli/doctor/cpu.h"
#include "services/cli/doctor/gpu.h"
#include "services/cli/doctor/limits.h"
#include "services/cli/doctor/memory.h"
#include "services/cli/doctor/model_files.h"
#include "services/cli/doctor/servers.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"

namespace plimsoll::cli {
namespace {

void AddMachine(std::vector<Diagnosis>& found) {
  const CpuReadings cpu = ReadCpu();
  found.push_back(CheckCpuPath(cpu));
  found.push_back(CheckCpuCount(cpu));
  found.push_back(CheckGpus(ReadGpus()));
  const MemoryReadings memory = ReadMemory();
  found.push_back(CheckAvailable(memory));
  found.push_back(CheckCgroup(memory));
  found.push_back(CheckSwap(memory));
  found.push_back(CheckHugePages(memory));
  found.push_back(CheckOvercommit(memory));
  const LimitReadings limits = ReadLimits();
  found.push_back(CheckDescriptors(limits));
  found.push_back(CheckThreadLimit(limits));
  const ClockReading first = ReadClocks();
  absl::SleepFor(kClockWait);
  found.push_back(CheckClocks(first, ReadClocks()));
}

absl::Status AddServers(const GlobalFlags& globals,
                        std::vector<Diagnosis>& found) {
  if (globals.planner.empty()) {
    found.push_back(SkippedServer("planner", "--planner"));
  } else {
    const auto planner = ReadPlanner(globals.planner);
    if (IsInterruptedError(planner.status())) return planner.status();
    found.push_back(CheckPlanner(globals.planner, planner));
  }
  if (globals.address.empty()) {
    found.push_back(SkippedServer("worker", "--address"));
  } else {
    const auto worker = ReadWorker(globals.address);
    if (IsInterruptedError(worker.status())) return worker.status();
    found.push_back(CheckWorker(globals.address, worker));
  }
  return absl::OkStatus();
}

absl::Status AddModels(const std::vector<std::string>& named,
                       std::vector<Diagnosis>& found) {
  const std::vector<std::string> models =
      named.empty() ? CachedModels() : named;
  const ModelOrigin origin =
      named.empty() ? ModelOrigin::kCached : ModelOrigin::kNamed;
  for (const std::string& model : models) {
    if (Interrupted()) return InterruptedError();
    found.push_back(CheckModel(model, origin));
  }
  if (models.empty()) found.push_back(NoModels());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Diagnosis>> Diagnose(
    const std::vector<std::string>& models, const GlobalFlags& globals) {
  std::vector<Diagnosis> found;
  AddMachine(found);
  RETURN_IF_ERROR(AddServers(globals, found));
  RETURN_IF_ERROR(AddModels(models, found));
  return found;
}

}  // namespace plimsoll::cli
