// Where a command reads and writes, and how it ends.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_STREAMS_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_STREAMS_H_

#include <istream>
#include <ostream>

#include "services/cli/terminal/terminal.h"

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

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_STREAMS_H_
