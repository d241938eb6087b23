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
// When the app is parsed, every flag that the command line leaves out has the
// value of its variable (VariableOf) or, without one, that of the file's
// section. A variable that is empty counts as missing; one of a flag that may
// be repeated has its values with commas between them. The flags check all
// these values as their own. Then `settings` has all flags of the app.
//
// A mistake ends the parsing as one on the command line does: its message
// begins with the variable, or with the file and the line. That holds for keys
// that no flag has, too.
void AddSettingsFlags(CLI::App& app, Settings& settings);

// Prints the settings on standard output if --print-config asks for that, and
// returns the exit code.
std::optional<int> PrintIfAsked(const Settings& settings);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SETTINGS_SETTINGS_FLAGS_H_
