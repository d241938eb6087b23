#include "services/planner/planner_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/settings/settings_flags.h"
#include "services/tracing/tracing_flags.h"

namespace plimsoll::services {
namespace {

using planner::LeaseTimes;

void AddTimeFlags(CLI::App& app, LeaseTimes& times,
                  std::optional<absl::Duration>& recovery) {
  AddSecondsFlag(
      app, {"--lease-ttl", "Seconds that a lease lives without a renewal"},
      times.ttl, {LeaseTimes::kMinTtl, LeaseTimes::kMaxTime});
  AddSecondsFlag(
      app,
      {"--lease-grace",
       "Seconds from the end of a reservation until a reading of the "
       "device may prove it gone; as long as a message may be on its "
       "way"},
      times.grace, {LeaseTimes::kMinGrace, LeaseTimes::kMaxTime});
  AddSecondsFlag(
      app,
      {"--recovery-time",
       "Seconds without grants after a start that may have forgotten "
       "leases; not less than the --lease-ttl of this and of earlier "
       "planners (10, or --lease-ttl if that is more)"},
      recovery, {LeaseTimes::kMinTtl, LeaseTimes::kMaxTime});
}

// What the flags leave to be decided by others of them.
struct OpenChoices {
  std::optional<absl::Duration> recovery;
  std::vector<std::string> headrooms;
  std::vector<std::string> sizes;
};

void AddPlannerFlags(CLI::App& app, PlannerFlags& flags, OpenChoices& open) {
  app.description(
      "Plans how much of a device's memory a language model may use, and "
      "grants it.");
  app.name("plimsoll-planner");
  PlannerOptions& options = flags.options;
  AddSettingsFlags(app, flags.settings);
  AddServerFlags(app, flags.server);
  AddTracingFlags(app, flags.tracing);
  AddModelFlag(app, options.models, ModelDigests::kRefused);
  app.add_option("--catalogue", options.catalogue,
                 "A CSV file of devices beside those that are installed");
  app.add_option("--journal", options.journal,
                 "Keep the leases in this SQLite file, so that a restart "
                 "forgets nothing; without it, or if it is new, nothing is "
                 "granted for --recovery-time, in which workers present what "
                 "they hold")
      ->type_name("FILE");
  app.add_flag("--first", options.is_first,
               "Grant at once: no earlier planner's leases are still held; "
               "does not count where a planner has been before");
  app.add_flag("--standby", options.is_standby,
               "While another planner has the journal, wait for it and answer "
               "health checks only (not ready); then grant at once with its "
               "leases. Both must be on one host");
  app.add_flag("--require-lease-secrets", options.requires_secrets,
               "Refuse reservations without a secret, which workers of "
               "versions before secrets make");
  app.add_option("--headroom", open.headrooms,
                 "Keep so many bytes of a device free, or of each device that "
                 "is not named; repeatable (what its worker says, or 0)")
      ->type_name("[DEVICE=]BYTES")
      ->expected(1)
      ->take_all();
  app.add_option("--device-memory", open.sizes,
                 "Grant no more than so many bytes of a device, or of each "
                 "device that is not named, whatever its workers say that it "
                 "has; repeatable (what the worker says that says least)")
      ->type_name("[DEVICE=]BYTES")
      ->expected(1)
      ->take_all();
  AddTimeFlags(app, options.times, open.recovery);
}

absl::Status CompletePlannerFlags(const OpenChoices& open,
                                  PlannerOptions& options) {
  if (options.is_standby && options.journal.empty()) {
    return absl::InvalidArgumentError(
        "--standby needs --journal: it waits for the one of another planner");
  }
  ASSIGN_OR_RETURN(options.headrooms,
                   ParseDeviceBytes("--headroom", open.headrooms));
  ASSIGN_OR_RETURN(options.sizes, ParseDeviceBytes("--device-memory",
                                                   open.sizes, /*least=*/1));
  options.times.recovery = open.recovery.value_or(
      std::max(LeaseTimes::kDefaultTtl, options.times.ttl));
  return planner::CheckLeaseTimes(options.times);
}

}  // namespace

std::optional<int> ParsePlannerFlags(int argc, char** argv,
                                     PlannerFlags& flags) {
  CLI::App app;
  OpenChoices open;
  AddPlannerFlags(app, flags, open);
  if (const auto code = ParseFlags(app, argc, argv)) return code;
  const absl::Status status = CompletePlannerFlags(open, flags.options);
  if (!status.ok()) return ExitCode(status);
  return PrintIfAsked(flags.settings);
}

absl::StatusOr<PlannerFlags> ReadPlannerFlagsAgain(int argc, char** argv) {
  CLI::App app;
  PlannerFlags flags;
  OpenChoices open;
  AddPlannerFlags(app, flags, open);
  RETURN_IF_ERROR(ReadFlagsAgain(app, argc, argv));
  RETURN_IF_ERROR(CompletePlannerFlags(open, flags.options));
  return flags;
}

}  // namespace plimsoll::services
