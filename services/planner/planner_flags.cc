#include "services/planner/planner_flags.h"

#include <CLI/CLI.hpp>

namespace plimsoll::services {

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
                 "granted for the first 10 s, in which workers present what "
                 "they hold")
      ->type_name("FILE");
  app.add_flag("--first", options.is_first,
               "Grant at once: no earlier planner's leases are still held");
  return ParseFlags(app, argc, argv);
}

}  // namespace plimsoll::services
