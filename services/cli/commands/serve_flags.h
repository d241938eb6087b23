// The flags of `plimsoll serve`, and the settings that may change while it
// runs.
#ifndef PLIMSOLL_SERVICES_CLI_COMMANDS_SERVE_FLAGS_H_
#define PLIMSOLL_SERVICES_CLI_COMMANDS_SERVE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/cli/flags/flags.h"
#include "services/http/front/front.h"
#include "services/http/local/local_planner.h"
#include "services/server/flags.h"
#include "services/settings/settings.h"
#include "services/tracing/tracer.h"
#include "services/worker/models/model_registry.h"
#include "services/worker/models/options.h"

namespace plimsoll::cli {

struct ServeFlags {
  services::Settings settings = {.section = "serve"};
  std::vector<std::string> models;
  services::HttpOptions http;
  std::string tokens;
  std::string quotas;
  std::string usage_file;
  services::LogSettings log;
  services::TracingOptions tracing;
  bool is_insecure = false;
  bool allows_core_dumps = false;
  int64_t drain_s = 30;
  std::vector<std::string> pinned;
  std::optional<int64_t> keep_alive_s;
  worker::Preemption preemption = worker::Preemption::kOn;
  absl::Duration hang_timeout = services::WorkerOptions::kHangTimeout;
  LoadFlags load;
};

void AddServeFlags(CLI::App& command, ServeFlags& flags);

// Returns the models that the operands name.
// Errors: UsageError; those of OpenModel.
absl::StatusOr<std::vector<services::ModelFlag>> FindModels(
    const std::vector<std::string>& operands);

// Errors: UsageError if a pinned model is not among options.models.
absl::Status CheckPinned(const services::WorkerOptions& options);

// Reads the flags of the server that `args` started again: from the command
// line, from the environment of the start, and from the settings file. Prints
// nothing. Errors: kInvalidArgument with the mistake.
absl::StatusOr<ServeFlags> ReadServeFlagsAgain(
    const std::vector<std::string>& args);

// Applies what has changed since `in_effect`: added models, `pin`, `keep-alive`
// and `log-level`. The log says what happened. If `flags` is an error, nothing
// changes.
void ReloadServe(const absl::StatusOr<ServeFlags>& flags,
                 services::ModelRegistry& registry,
                 services::LocalPlanner& planner,
                 services::Settings& in_effect);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_COMMANDS_SERVE_FLAGS_H_
