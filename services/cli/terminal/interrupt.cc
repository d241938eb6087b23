// Ctrl-C: a signal sets a flag, and waiting code checks it.
#include "services/cli/terminal/interrupt.h"

namespace plimsoll::cli {
namespace {

// This is the one global variable: a signal handler can reach nothing else.
volatile std::sig_atomic_t g_interrupted = 0;

void OnSignal(int) { g_interrupted = 1; }

}  // namespace

InterruptScope::InterruptScope() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

bool Interrupted() { return g_interrupted != 0; }

}  // namespace plimsoll::cli
