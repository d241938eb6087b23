#include "services/host/crash/bus_error.h"

#include <signal.h>  // sigaction
#include <unistd.h>

namespace plimsoll::services {
namespace {

// Calls only what a signal handler may call.
void OnBusError(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_code != BUS_ADRERR) {
    // Not a page of a file: the next attempt ends as it would have ended.
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    return;
  }
  constexpr char kLine[] =
      "plimsoll: a page of a mapped model file cannot be read: the file was "
      "truncated, or its disk failed; load the model again\n";
  (void)!write(STDERR_FILENO, kLine, sizeof(kLine) - 1);
  _exit(kBusErrorStatus);
}

}  // namespace

void EndOnBusError() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace plimsoll::services
