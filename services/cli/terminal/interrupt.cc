// Ctrl-C and requests to end: a signal sets a flag, and waiting code checks it.
#include "services/cli/terminal/interrupt.h"

namespace plimsoll::cli {
namespace {

// These are the only global variables: a signal handler can reach nothing else.
// The first one holds the number of the signal that asks to end; 0 if none
// came.
volatile std::sig_atomic_t g_interrupted = 0;
volatile std::sig_atomic_t g_hung_up = 0;

void OnSignal(int signal) { g_interrupted = signal; }
void OnHangup(int) { g_hung_up = 1; }

}  // namespace

InterruptScope::InterruptScope(Hangup hangup) {
  if (!Terminated()) g_interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
  // What nohup starts outlives its terminal. A terminal that is closed may send
  // the signal twice.
  action.sa_flags = 0;
  sigaction(SIGHUP, nullptr, &old_hangup_);
  if (hangup == Hangup::kNoted) action.sa_handler = OnHangup;
  if (hangup == Hangup::kNoted || old_hangup_.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  // The second one must not kill a process that the first one ends.
  if (g_interrupted == SIGHUP) old_hangup_.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &old_hangup_, nullptr);
}

bool Interrupted() { return g_interrupted != 0; }
bool TakeHangup() {
  if (g_hung_up == 0) return false;
  g_hung_up = 0;
  return true;
}
void ForgetInterrupt() { g_interrupted = 0; }
bool Terminated() {
  return g_interrupted == SIGTERM || g_interrupted == SIGHUP;
}

}  // namespace plimsoll::cli
