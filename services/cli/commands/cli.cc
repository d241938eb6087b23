// The command `plimsoll` as a function.
#include "services/cli/commands/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/help.h"
#include "services/server/flags.h"
#include "services/server/tls_files.h"

namespace plimsoll::cli {
namespace {

constexpr char kProgramDescription[] =
    "Plans how much of a device's memory a language model may use, loads it "
    "exactly to that line, and streams text from it.\n"
    "Without an address everything runs in this process.";

constexpr char kProgramFooter[] =
    "Examples:\n"
    "  plimsoll plan model.gguf --device-memory 12GiB\n"
    "  plimsoll generate --model model.gguf --prompt 'Why is the sea salty?'\n"
    "  plimsoll chat --model model.gguf\n"
    "  plimsoll serve model.gguf\n"
    "\n"
    "Exit codes: 0 ok, 1 error, 2 usage, 3 does not fit.\n"
    "'plimsoll COMMAND --help' explains a command.";

// Gives the planner's connection the worker's TLS files and token, and checks
// both connections.
absl::Status CheckGlobals(GlobalFlags& globals) {
  globals.planner.security = globals.address.security;
  for (const Endpoint* server : {&globals.address, &globals.planner}) {
    if (server->empty()) continue;
    const absl::Status status =
        services::CheckClientSecurity(server->security, server->address);
    if (!status.ok()) return UsageError(status.message());
  }
  return absl::OkStatus();
}

// CLI11 reports errors by exceptions; no exception leaves this function.
int Parse(CLI::App& app, const std::vector<std::string>& args,
          Streams& streams) {
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* chosen = &app;
    while (!chosen->get_subcommands().empty()) {
      chosen = chosen->get_subcommands().front();
    }
    streams.out << HelpText(chosen);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return Report(UsageError(error.what()), streams);
  }
  return -1;
}

}  // namespace

void AddGlobals(CLI::App& app, GlobalFlags* globals) {
  app.add_option("--address", globals->address.address,
                 "A worker's address, also unix:/PATH; --model is then a name "
                 "that it was configured with")
      ->type_name("HOST:PORT");
  app.add_option("--planner", globals->planner.address,
                 "A planner's address, also unix:/PATH, for plan, what-if, "
                 "place, devices, leases and doctor")
      ->type_name("HOST:PORT");
  services::AddClientFlags(app, globals->address.security);
}

int Run(const std::vector<std::string>& args, Streams& streams) {
  CLI::App app(kProgramDescription, "plimsoll");
  app.footer(kProgramFooter);
  app.require_subcommand(0, 1);
  app.fallthrough();
  Commands commands{streams, {}, {}, args};
  AddGlobals(app, &commands.globals);
  AddPlan(app, commands);
  AddWhatIf(app, commands);
  AddGenerate(app, commands);
  AddChat(app, commands);
  AddServe(app, commands);
  AddPerplexity(app, commands);
  AddBench(app, commands);
  AddTokenize(app, commands);
  AddTemplate(app, commands);
  AddConstraint(app, commands);
  AddVerify(app, commands);
  AddDoctor(app, commands);
  AddPull(app, commands);
  AddConvert(app, commands);
  AddModels(app, commands);
  AddDevices(app, commands);
  AddPlace(app, commands);
  AddLeases(app, commands);
  AddMemory(app, commands);
  AddSessions(app, commands);
  AddTop(app, commands);
  AddDrain(app, commands);
  AddAbort(app, commands);
  AddToken(app, commands);
  AddUsage(app, commands);
  AddCert(app, commands);
  AddVersion(app, commands);
  AddCompletion(app, commands);
  if (const int code = Parse(app, args, streams); code >= 0) return code;
  if (!commands.run) {
    streams.err << HelpText(&app);
    return kExitUsage;
  }
  absl::Status status = CheckGlobals(commands.globals);
  if (status.ok()) status = commands.run();
  streams.out.flush();
  if (status.ok() && !streams.out.good()) {
    return Report(absl::DataLossError(
                      "the output could not be written whole; is the disk "
                      "full or the pipe closed?"),
                  streams);
  }
  return Report(status, streams);
}

}  // namespace plimsoll::cli
