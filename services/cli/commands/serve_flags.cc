#include "services/cli/commands/serve_flags.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/failure.h"
#include "services/host/log.h"
#include "services/settings/reload.h"
#include "services/settings/settings_flags.h"
#include "services/tracing/tracing_flags.h"
#include "services/worker/process/worker_flags.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxKeepAlive = int64_t{365} * 24 * 3'600;  // seconds

// A name for clients: the file's, with '-' for characters that names have not.
std::string NameOf(const std::string& path) {
  std::string name = fs::path(path).stem().string();
  name.resize(std::min(name.size(), services::ModelFlag::kMaxNameBytes));
  for (char& c : name) {
    const bool is_good = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                         c == '-' || c == '_' || c == '.' || c == ':';
    if (!is_good) c = '-';
  }
  return name;
}

}  // namespace

absl::StatusOr<std::vector<services::ModelFlag>> FindModels(
    const std::vector<std::string>& operands) {
  std::vector<std::string> paths;
  for (const std::string& operand : operands) {
    std::error_code error;
    if (!fs::is_directory(operand, error)) {
      paths.push_back(ResolveModel(operand));
      continue;
    }
    const std::vector<std::string> found = ModelsIn(operand);
    if (found.empty()) {
      return UsageError(absl::StrCat(operand, " has no file *.gguf"));
    }
    paths.insert(paths.end(), found.begin(), found.end());
  }
  std::vector<services::ModelFlag> models;
  for (const std::string& path : paths) {
    // Mistakes are reported before a device is opened.
    RETURN_IF_ERROR(OpenModel(path).status());
    services::ModelFlag model{NameOf(path), path};
    if (services::HasModel(models, model.name)) {
      return UsageError(absl::StrCat("two models are called ", model.name));
    }
    models.push_back(std::move(model));
  }
  return models;
}

absl::Status CheckPinned(const services::WorkerOptions& options) {
  for (const std::string& name : options.pinned) {
    if (services::HasModel(options.models, name)) continue;
    return UsageError(absl::StrCat(
        "--pin ", name, ": there is no model of this name; there are ",
        absl::StrJoin(options.models, ", ",
                      [](std::string* out, const services::ModelFlag& one) {
                        out->append(one.name);
                      })));
  }
  return absl::OkStatus();
}

void AddServeFlags(CLI::App& command, ServeFlags& flags) {
  flags.http.listen = "127.0.0.1:8080";
  flags.load.slots = services::WorkerLoadDefaults().n_slots;
  flags.load.parked_slots = services::WorkerLoadDefaults().n_parked;
  services::AddSettingsFlags(command, flags.settings);
  command
      .add_option("models", flags.models,
                  "GGUF files, names in the cache, or folders of files; "
                  "clients call a model by its file's name without .gguf")
      ->type_name("FILE...");
  command
      .add_option("--listen", flags.http.listen,
                  "Where to listen; port 0 takes any (127.0.0.1:8080)")
      ->type_name("HOST:PORT");
  command.add_flag("--insecure", flags.is_insecure,
                   "Allow an address that is not loopback without TLS, or "
                   "without tokens or client certificates");
  services::AddSecurityFlags(command, flags.http.tls, flags.tokens);
  command
      .add_option("--allow-host", flags.http.allowed_hosts,
                  "A host name that requests to this server may have, beside "
                  "addresses and localhost; repeatable")
      ->type_name("NAME");
  command
      .add_option("--allow-origin", flags.http.allowed_origins,
                  "An origin whose pages may send requests, such as "
                  "https://chat.example.com; repeatable")
      ->type_name("ORIGIN");
  AddCount(command, &flags.drain_s,
           {.name = "--drain-timeout",
            .max = 3'600,
            .type = "S",
            .help = "Seconds that running calls get after SIGTERM (30)"});
  command
      .add_option("--pin", flags.pinned,
                  "Name of a model that is never unloaded for another one; "
                  "repeatable")
      ->type_name("NAME");
  AddCount(command, &flags.keep_alive_s,
           {.name = "--keep-alive",
            .max = kMaxKeepAlive,
            .type = "S",
            .help = "Unload a model that nobody has used for this many seconds "
                    "(never)"});
  services::AddPreemptionFlag(command, flags.preemption);
  services::AddHangFlag(command, flags.hang_timeout);
  services::AddQuotaFlag(command, flags.quotas);
  services::AddUsageFlag(command, flags.usage_file);
  services::AddLogFlags(command, flags.log);
  services::AddCoreDumpsFlag(command, flags.allows_core_dumps);
  services::AddTracingFlags(command, flags.tracing);
  AddLoadFlags(command, &flags.load);
}

absl::StatusOr<ServeFlags> ReadServeFlagsAgain(
    const std::vector<std::string>& args) {
  CLI::App app;
  app.fallthrough();
  GlobalFlags globals;
  AddGlobals(app, &globals);
  ServeFlags flags;
  AddServeFlags(*app.add_subcommand("serve"), flags);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return flags;
}

void ReloadServe(const absl::StatusOr<ServeFlags>& flags,
                 services::ModelRegistry& registry,
                 services::LocalPlanner& planner,
                 services::Settings& in_effect) {
  if (!flags.ok()) return services::LogBadSettings(flags.status());
  const auto set_models = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto models, FindModels(flags->models));
    RETURN_IF_ERROR(planner.SetModels(models));
    return registry.AddModels(models);
  };
  const auto set_pinned = [&]() -> absl::Status {
    services::WorkerOptions wanted;
    wanted.pinned = flags->pinned;
    ASSIGN_OR_RETURN(wanted.models, FindModels(flags->models));
    RETURN_IF_ERROR(CheckPinned(wanted));
    registry.SetPinned(flags->pinned);
    return absl::OkStatus();
  };
  const auto set_keep_alive = [&] {
    registry.SetDefaultKeepAlive(flags->keep_alive_s.has_value()
                                     ? absl::Seconds(*flags->keep_alive_s)
                                     : absl::InfiniteDuration());
    return absl::OkStatus();
  };
  const auto set_level = [&] {
    services::SetLogLevel(flags->log.least);
    return absl::OkStatus();
  };
  services::ApplySettings(flags->settings,
                          {{"models", set_models},
                           {"pin", set_pinned},
                           {"keep-alive", set_keep_alive},
                           {"log-level", set_level}},
                          in_effect);
}

}  // namespace plimsoll::cli
