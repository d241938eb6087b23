// plimsoll-gateway: serves the models of workers over HTTP.
#include "services/gateway/gateway_flags.h"
#include "services/gateway/gateway_process.h"
#include "services/host/background.h"
#include "services/host/crash/core_dumps.h"
#include "services/host/crash/crash_report.h"
#include "services/host/heap.h"
#include "services/host/lock_checks.h"
#include "services/server/flags.h"
#include "services/server/server.h"

namespace plimsoll::services {
namespace {

int Main(int argc, char** argv) {
  ReportCrashes();
  KeepHeapSmall();
  DisableLockChecks();
  HoldSignals();
  GatewayFlags flags;
  if (const auto code = ParseGatewayFlags(argc, argv, flags)) return *code;
  if (!flags.server.allows_core_dumps) ForbidCoreDumps();
  return ExitCode(NeedsThreads([&] { return RunGateway(flags); }));
}

}  // namespace
}  // namespace plimsoll::services

int main(int argc, char** argv) { return plimsoll::services::Main(argc, argv); }
