// Ctrl-C: a signal sets a flag, and waiting code checks it.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_

#include <csignal>

#include "absl/time/time.h"

namespace plimsoll::cli {

// A waiting command checks this often whether it was interrupted.
inline constexpr absl::Duration kInterruptPoll = absl::Milliseconds(50);

// While an object of this class lives, SIGINT and SIGTERM set a flag. A second
// signal kills the process, so that nothing can hang. Objects are not nested.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction old_int_;
  struct sigaction old_term_;
};

// Returns true once a signal came.
bool Interrupted();

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
