// Writes help texts in 80 columns, the same with every version of CLI11.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_HELP_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_HELP_H_

#include <CLI/CLI.hpp>
#include <string>

namespace plimsoll::cli {

// The help of `app`: what it does, usage, commands, options by group, and its
// footer (examples).
std::string HelpText(const CLI::App* app);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_HELP_H_
