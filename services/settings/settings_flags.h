// Gives the flags of a program values from the environment and from a file.
#ifndef PLIMSOLL_SERVICES_SETTINGS_SETTINGS_FLAGS_H_
#define PLIMSOLL_SERVICES_SETTINGS_SETTINGS_FLAGS_H_

#include <optional>

#include "services/settings/settings.h"

namespace CLI {
class App;
}  // namespace CLI

namespace plimsoll::services {

// Adds --config and --print-config. Must be called before any other flag is
// added; `settings`, whose section is set, outlives the app.
//
// When the app is parsed, every flag that the command line leaves out gets the
// value of its variable (VariableOf) or, without a variable, the value in the
// file's section. An empty variable counts as missing. The variable of a
// repeatable flag has values separated by commas. The flags check all these
// values like values on the command line. Then `settings` has all flags of the
// app.
//
// A mistake ends the parsing like a mistake on the command line. Its message
// begins with the variable, or with the file and the line. Keys that belong to
// no flag are mistakes too.
void AddSettingsFlags(CLI::App& app, Settings& settings);

// Prints the settings on standard output if --print-config asks for that, and
// returns the exit code.
std::optional<int> PrintIfAsked(const Settings& settings);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SETTINGS_SETTINGS_FLAGS_H_
