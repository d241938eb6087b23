// The command `plimsoll` as a function: arguments and streams in, exit code
// out, so that tests run it without a process.
#ifndef PLIMSOLL_SERVICES_CLI_CLI_H_
#define PLIMSOLL_SERVICES_CLI_CLI_H_

#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "services/cli/terminal.h"

namespace plimsoll::cli {

// Exit codes; scripts branch on them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDoesNotFit = 3;
inline constexpr int kExitInterrupted = 130;  // as shells report SIGINT

// Where a command reads and writes. Results go to `out`, everything meant for
// people beside them (progress, notes, errors) to `err`.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Style out_style;
  Style err_style;
};

// Runs `plimsoll args...` (without the program's name).
int Run(const std::vector<std::string>& args, Streams& streams);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CLI_H_
