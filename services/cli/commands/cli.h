// The command `plimsoll` as a function: it takes arguments and streams and
// returns the exit code, so that tests run it without a process.
#ifndef PLIMSOLL_SERVICES_CLI_COMMANDS_CLI_H_
#define PLIMSOLL_SERVICES_CLI_COMMANDS_CLI_H_

#include <string>
#include <vector>

#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

// Runs `plimsoll args...` (without the program's name).
int Run(const std::vector<std::string>& args, Streams& streams);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_COMMANDS_CLI_H_
