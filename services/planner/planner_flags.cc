#include "services/planner/planner_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace plimsoll::services {
namespace {

using planner::LeaseTimes;

template <typename Time>
void AddSecondsFlag(CLI::App& app, const std::string& name, Time& time,
                    absl::Duration min, const std::string& help) {
  app.add_option_function<double>(
         name,
         [&time](const double& seconds) { time = absl::Seconds(seconds); },
         help)
      ->check(CLI::Range(absl::ToDoubleSeconds(min),
                         absl::ToDoubleSeconds(LeaseTimes::kMaxTime)));
}

void AddTimeFlags(CLI::App& app, LeaseTimes& times,
                  std::optional<absl::Duration>& recovery) {
  AddSecondsFlag(app, "--lease-ttl", times.ttl, LeaseTimes::kMinTtl,
                 "Seconds that a lease lives without a renewal (10)");
  AddSecondsFlag(app, "--lease-grace", times.grace, LeaseTimes::kMinGrace,
                 "Seconds from the end of a reservation until a reading of the "
                 "device may prove it gone; as long as a message may be on its "
                 "way (5)");
  AddSecondsFlag(app, "--recovery-time", recovery, LeaseTimes::kMinTtl,
                 "Seconds without grants after a start that may have forgotten "
                 "leases; not less than the --lease-ttl of this and of earlier "
                 "planners (10, or --lease-ttl if that is more)");
}

}  // namespace

std::optional<int> ParsePlannerFlags(int argc, char** argv,
                                     ServerOptions& server,
                                     PlannerOptions& options) {
  CLI::App app(
      "Plans how much of a device's memory a language model may use, and "
      "grants it.",
      "plimsoll-planner");
  AddServerFlags(app, server);
  AddModelFlag(app, options.models);
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
  std::optional<absl::Duration> recovery;
  AddTimeFlags(app, options.times, recovery);
  if (const auto code = ParseFlags(app, argc, argv)) return code;
  options.times.recovery =
      recovery.value_or(std::max(LeaseTimes::kDefaultTtl, options.times.ttl));
  const absl::Status status = planner::CheckLeaseTimes(options.times);
  if (!status.ok()) return ExitCode(status);
  return std::nullopt;
}

}  // namespace plimsoll::services
