#include "services/planner/planner_flags.h"

#include <CLI/CLI.hpp>

namespace plimsoll::services {

std::optional<int> ParsePlannerFlags(int argc, char** argv,
                                     ServerOptions& server,
                                     std::vector<ModelFlag>& models,
                                     std::string& catalogue) {
  CLI::App app(
      "Plans how much of a device's memory a language model may use, and "
      "grants it.",
      "plimsoll-planner");
  AddServerFlags(app, server);
  AddModelFlag(app, models);
  app.add_option("--catalogue", catalogue,
                 "A CSV file of devices beside those that are installed");
  return ParseFlags(app, argc, argv);
}

}  // namespace plimsoll::services
