// Ctrl-C: asked for by a signal, noticed by whoever waits.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_

#include <csignal>

#include "absl/time/time.h"

namespace plimsoll::cli {

// How often a waiting command looks whether it was interrupted.
inline constexpr absl::Duration kInterruptPoll = absl::Milliseconds(50);

// While one lives, SIGINT and SIGTERM set a flag; a second one kills the
// process, so that nothing can hang. Not nested.
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

// True once a signal came.
bool Interrupted();

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
