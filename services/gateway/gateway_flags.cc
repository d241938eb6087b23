#include "services/gateway/gateway_flags.h"

#include <CLI/CLI.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "services/server/access/listen_address.h"
#include "services/server/flags.h"
#include "services/settings/settings_flags.h"
#include "services/tracing/tracing_flags.h"

namespace plimsoll::services {
namespace {

constexpr char kDnsScheme[] = "dns:///";

void AddGatewayFlags(CLI::App& app, GatewayFlags& flags) {
  app.description(
      "Serves the models of workers over HTTP to the clients of OpenAI, "
      "Anthropic and Ollama. It keeps nothing, so that any number of gateways "
      "may stand side by side. docs/gateway.md tells more.");
  app.name("plimsoll-gateway");
  AddSettingsFlags(app, flags.settings);
  app.add_option("--listen", flags.server.listen,
                 "HOST:PORT to listen on, port 0 takes any")
      ->capture_default_str()
      ->check(CheckHostPort);
  AddNetworkFlags(app, flags.server);
  AddTracingFlags(app, flags.tracing);
  app.add_option("--allow-host", flags.allowed_hosts,
                 "A name that requests may call this gateway by, beside "
                 "addresses and localhost; repeatable")
      ->type_name("NAME");
  app.add_option("--allow-origin", flags.allowed_origins,
                 "An origin whose pages may send requests, such as "
                 "https://chat.example.com; repeatable")
      ->type_name("ORIGIN");
  app.add_option("--worker", flags.workers.workers,
                 "A worker's address; repeatable")
      ->type_name("HOST:PORT");
  app.add_option("--workers", flags.workers.name,
                 "A name each of whose addresses is a worker; it is looked up "
                 "every 5 seconds")
      ->type_name("dns:///NAME:PORT");
  app.add_option("--planner", flags.planner,
                 "HOST:PORT or unix:/PATH of a planner, whose queries are then "
                 "answered over HTTP; it is called like the workers (none)");
  AddClientFlags(app, flags.workers.security);
}

}  // namespace

absl::Status CheckWorkers(WorkerSetOptions& options) {
  if (options.workers.empty() && options.name.empty()) {
    return absl::InvalidArgumentError(
        "there is no worker; give --worker HOST:PORT, or --workers "
        "dns:///NAME:PORT");
  }
  if (options.workers.size() > WorkerBook::kMaxWorkers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--worker was given ", options.workers.size(), " times, at most ",
        WorkerBook::kMaxWorkers, " are accepted"));
  }
  std::set<std::string> seen;
  for (const std::string& worker : options.workers) {
    RETURN_IF_ERROR(ParseListen(worker, "--worker").status());
    RETURN_IF_ERROR(CheckClientSecurity(options.security, worker));
    if (!seen.insert(worker).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--worker ", worker, " was given twice"));
    }
  }
  if (options.name.empty()) return absl::OkStatus();
  options.name = std::string(absl::StripPrefix(options.name, kDnsScheme));
  RETURN_IF_ERROR(ParseListen(options.name, "--workers").status());
  return CheckClientSecurity(options.security, options.name);
}

std::optional<int> ParseGatewayFlags(int argc, char** argv,
                                     GatewayFlags& flags) {
  CLI::App app;
  AddGatewayFlags(app, flags);
  if (const auto code = ParseFlags(app, argc, argv)) return code;
  if (const auto code = PrintIfAsked(flags.settings)) return code;
  absl::Status status = CheckWorkers(flags.workers);
  if (status.ok() && !flags.planner.empty()) {
    status = CheckClientSecurity(flags.workers.security, flags.planner);
  }
  if (!status.ok()) return ExitCode(status);
  return std::nullopt;
}

}  // namespace plimsoll::services
