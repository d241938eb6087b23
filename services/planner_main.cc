// plimsoll-planner: plans models on devices and grants their memory.
#include <grpcpp/impl/service_type.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/common/clock.h"
#include "services/common/flags.h"
#include "services/common/log.h"
#include "services/common/server.h"
#include "services/planner/ledger.h"
#include "services/planner/planner.h"
#include "services/planner/planner_flags.h"
#include "services/planner/planner_service.h"
#include "worker/model_file.h"

namespace plimsoll::services {
namespace {

// Reads the header of every configured model.
absl::StatusOr<Planner::Models> ReadModels(
    const std::vector<ModelFlag>& flags) {
  Planner::Models models;
  for (const ModelFlag& flag : flags) {
    auto file = worker::ModelFile::Open(flag.path);
    if (!file.ok()) return file.status();
    models[flag.name] = (*file)->shape();
  }
  return models;
}

absl::Status Run(const ServerOptions& options,
                 const std::vector<ModelFlag>& flags) {
  auto models = ReadModels(flags);
  if (!models.ok()) return models.status();
  Ledger ledger(BootTime);
  Planner planner(*std::move(models), ledger);
  CallGate gate;
  const auto service = NewPlannerService(planner, ledger, gate);
  auto server = Server::Start(options, {service.get()}, gate);
  if (!server.ok()) return server.status();
  (*server)->SetReady(true);
  AnnounceAddress((*server)->address());
  AwaitSignal();
  Log("draining");
  (*server)->Drain([] {});
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  HoldSignals();
  ServerOptions options;
  std::vector<ModelFlag> models;
  if (const auto code = ParsePlannerFlags(argc, argv, options, models)) {
    return *code;
  }
  return ExitCode(Run(options, models));
}

}  // namespace
}  // namespace plimsoll::services

int main(int argc, char** argv) { return plimsoll::services::Main(argc, argv); }
