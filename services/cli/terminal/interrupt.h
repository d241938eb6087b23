// Ctrl-C and requests to end: a signal sets a flag, and waiting code checks it.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_

#include <csignal>

#include "absl/time/time.h"

namespace plimsoll::cli {

// The time between two checks of a waiting command for an interruption.
inline constexpr absl::Duration kInterruptPoll = absl::Milliseconds(50);

// The meaning of SIGHUP.
enum class Hangup {
  kEnds,   // the terminal is gone: the process must end
  kNoted,  // TakeHangup() reports it, and nothing else happens
};

// While an object of this class lives, SIGINT, SIGTERM and, unless it is
// ignored, SIGHUP set a flag. At its beginning it forgets an earlier Ctrl-C. A
// second SIGINT or SIGTERM kills the process, so that nothing can hang; a
// second SIGHUP, which a closed terminal may send, does nothing, even later.
// Objects are not nested.
class InterruptScope {
 public:
  explicit InterruptScope(Hangup hangup = Hangup::kEnds);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction old_int_;
  struct sigaction old_term_;
  struct sigaction old_hangup_;
};

// Returns true after a signal has come.
bool Interrupted();
// Returns true if the signal was not Ctrl-C but one that asks the process to
// end.
bool Terminated();
// Returns true once after each noted SIGHUP. Several signals at the same time
// may count as one.
bool TakeHangup();
// Clears the flag. For code that continues after Ctrl-C.
void ForgetInterrupt();

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
