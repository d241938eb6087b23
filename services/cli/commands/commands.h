// The commands of `plimsoll`, one file each. A function adds a command to the
// parser and sets what to run if the command is chosen.
#ifndef PLIMSOLL_SERVICES_CLI_COMMANDS_COMMANDS_H_
#define PLIMSOLL_SERVICES_CLI_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/cli/flags/flags.h"
#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

// The state that commands share while one command line is parsed and run.
struct Commands {
  Streams& streams;
  GlobalFlags globals;
  // Runs the chosen command; parsing sets it.
  std::function<absl::Status()> run;
  std::vector<std::string> args = {};  // the command line without the name
};

// Adds the flags that stand before a command.
void AddGlobals(CLI::App& app, GlobalFlags* globals);

void AddPlan(CLI::App& app, Commands& commands);
void AddWhatIf(CLI::App& app, Commands& commands);
void AddGenerate(CLI::App& app, Commands& commands);
void AddChat(CLI::App& app, Commands& commands);
void AddBench(CLI::App& app, Commands& commands);
void AddPerplexity(CLI::App& app, Commands& commands);
void AddTokenize(CLI::App& app, Commands& commands);
void AddTemplate(CLI::App& app, Commands& commands);
void AddVerify(CLI::App& app, Commands& commands);
void AddModels(CLI::App& app, Commands& commands);
void AddDescribe(CLI::App& models, Commands& commands);
void AddPull(CLI::App& app, Commands& commands);
void AddConvert(CLI::App& app, Commands& commands);
void AddDoctor(CLI::App& app, Commands& commands);
void AddConstraint(CLI::App& app, Commands& commands);
void AddDevices(CLI::App& app, Commands& commands);
void AddPlace(CLI::App& app, Commands& commands);
void AddLeases(CLI::App& app, Commands& commands);
void AddMemory(CLI::App& app, Commands& commands);
void AddServe(CLI::App& app, Commands& commands);
void AddSessions(CLI::App& app, Commands& commands);
void AddTop(CLI::App& app, Commands& commands);
void AddDrain(CLI::App& app, Commands& commands);
void AddAbort(CLI::App& app, Commands& commands);
void AddToken(CLI::App& app, Commands& commands);
void AddUsage(CLI::App& app, Commands& commands);
void AddCert(CLI::App& app, Commands& commands);
void AddVersion(CLI::App& app, Commands& commands);
void AddCompletion(CLI::App& app, Commands& commands);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_COMMANDS_COMMANDS_H_
