// The probe uses signal handlers and not a child process: a process with
// threads may not be able to fork, and its child would copy the tables of all
// its pages.
#include "kernels/cpu/trap_probe.h"

#include <pthread.h>
#include <setjmp.h>  // sigsetjmp, which csetjmp does not have
#include <signal.h>  // sigaction, the same

#include <array>
#include <cstddef>
#include <mutex>

namespace plimsoll::kernels {
namespace {

// The signals that a system sends for an instruction that it does not run.
constexpr std::array kTrapSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};

// Written under the probe's mutex, before the handlers are there.
std::array<struct sigaction, kTrapSignals.size()> actions_before;
// Set in the thread that probes; null in all others.
thread_local sigjmp_buf* way_back = nullptr;

void OnTrap(int signal) {
  if (way_back != nullptr) siglongjmp(*way_back, 1);
  for (size_t i = 0; i < kTrapSignals.size(); ++i) {
    if (kTrapSignals[i] != signal) continue;
    // The signal comes again as soon as this handler returns.
    sigaction(signal, &actions_before[i], nullptr);
    raise(signal);
  }
}

}  // namespace

bool RunsWithoutTrap(void (*instructions)()) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction action = {};
  action.sa_handler = OnTrap;
  sigset_t traps;
  sigemptyset(&traps);
  for (size_t i = 0; i < kTrapSignals.size(); ++i) {
    sigaction(kTrapSignals[i], nullptr, &actions_before[i]);
    sigaddset(&traps, kTrapSignals[i]);
  }
  for (const int signal : kTrapSignals) sigaction(signal, &action, nullptr);
  // A trap that is blocked ends the process.
  sigset_t mask_before;
  pthread_sigmask(SIG_UNBLOCK, &traps, &mask_before);
  sigjmp_buf back;
  volatile bool has_run = false;
  if (sigsetjmp(back, /*savemask=*/1) == 0) {
    way_back = &back;
    instructions();
    has_run = true;
  }
  way_back = nullptr;
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  for (size_t i = 0; i < kTrapSignals.size(); ++i) {
    sigaction(kTrapSignals[i], &actions_before[i], nullptr);
  }
  return has_run;
}

}  // namespace plimsoll::kernels
