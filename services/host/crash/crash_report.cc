#include "services/host/crash/crash_report.h"

#include <execinfo.h>
#include <signal.h>  // sigaction
#include <unistd.h>

#include <cstddef>
#include <initializer_list>

namespace plimsoll::services {
namespace {

constexpr int kMaxFrames = 64;
// The handler and what calls it.
constexpr int kOwnFrames = 2;
// A report that cannot be written ends the process after this time.
constexpr unsigned kSeconds = 2;
// What a shell shows for a process that a signal has ended.
constexpr int kSignalStatus = 128;

volatile sig_atomic_t crash_signal = 0;

template <size_t n>
void Write(const char (&text)[n]) {
  (void)!write(STDERR_FILENO, text, n - 1);
}

void WriteReason(int signal) {
  switch (signal) {
    case SIGABRT:
      Write(
          "plimsoll: the process ends at once (SIGABRT): the lines above say "
          "why, or, "
          "if none does, the system gave a library no memory");
      return;
    case SIGSEGV:
      Write(
          "plimsoll: the process crashed (SIGSEGV): this is a bug, or the "
          "system gave "
          "a library no memory");
      return;
    case SIGILL:
      Write(
          "plimsoll: the process crashed (SIGILL): this CPU does not know an "
          "instruction of the program");
      return;
    default:
      Write("plimsoll: the process crashed (SIGFPE): this is a bug");
  }
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(signal, &action, nullptr);
}

void OnAlarm(int /*signal*/) {
  _exit(kSignalStatus + static_cast<int>(crash_signal));
}

// Calls only what a signal handler may call, and backtrace(), which allocates
// only the first time.
void OnCrash(int signal) {
  crash_signal = signal;
  // The first process of a container has no default action for signals: abort()
  // goes on to an instruction that is forbidden, which is no second crash.
  Handle(SIGSEGV, SIG_DFL);
  Handle(SIGALRM, OnAlarm);
  alarm(kSeconds);
  WriteReason(signal);
  Write(". These calls led there, the last one first:\n");
  void* frames[kMaxFrames];
  const int n_frames = backtrace(frames, kMaxFrames);
  if (n_frames > kOwnFrames) {
    backtrace_symbols_fd(frames + kOwnFrames, n_frames - kOwnFrames,
                         STDERR_FILENO);
  }
  raise(signal);  // ends the process when this returns
}

}  // namespace

void ReportCrashes() {
  void* frame[1];
  backtrace(frame, 1);  // the first call loads a library
  for (const int signal : {SIGABRT, SIGSEGV, SIGILL, SIGFPE}) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_DFL) Handle(signal, OnCrash);
  }
}

}  // namespace plimsoll::services
