// Ctrl-C and requests to end: a signal sets a flag, and waiting code checks it.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_

#include <csignal>

#include "absl/time/time.h"

namespace plimsoll::cli {

// A waiting command checks this often whether it was interrupted.
inline constexpr absl::Duration kInterruptPoll = absl::Milliseconds(50);

// What SIGHUP means.
enum class Hangup {
  kEnds,   // the terminal is gone: the process is to end
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

// Returns true once a signal came.
bool Interrupted();
// Returns true if the signal was not Ctrl-C but one that asks the process to
// end.
bool Terminated();
// Returns true once after each SIGHUP that was noted. Several that come at the
// same time may count as one.
bool TakeHangup();
// Clears the flag. Code that goes on after Ctrl-C calls this.
void ForgetInterrupt();

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_INTERRUPT_H_
