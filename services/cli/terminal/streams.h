// The streams that a command reads and writes, and its exit codes.
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
inline constexpr int kExitInterrupted = 130;  // shells report SIGINT like this

// Results go to `out`. Everything else that people read (progress, notes,
// errors) goes to `err`.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Style out_style;
  Style err_style;
  bool in_is_tty = false;
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_STREAMS_H_
