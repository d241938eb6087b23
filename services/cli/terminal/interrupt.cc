// Ctrl-C and requests to end: a signal sets a flag, and waiting code checks it.
#include "services/cli/terminal/interrupt.h"

namespace plimsoll::cli {
namespace {

// This is the one global variable: a signal handler can reach nothing else.
// It holds the signal's number; 0 if none came.
volatile std::sig_atomic_t g_interrupted = 0;

void OnSignal(int signal) { g_interrupted = signal; }

}  // namespace

InterruptScope::InterruptScope() {
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
  if (old_hangup_.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  // The second one must not kill a process that the first one ends.
  if (g_interrupted == SIGHUP) old_hangup_.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &old_hangup_, nullptr);
}

bool Interrupted() { return g_interrupted != 0; }
void ForgetInterrupt() { g_interrupted = 0; }
bool Terminated() {
  return g_interrupted == SIGTERM || g_interrupted == SIGHUP;
}

}  // namespace plimsoll::cli
