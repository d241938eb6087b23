#include "services/host/crash/abort_message.h"

#include <signal.h>  // sigaction
#include <unistd.h>

namespace plimsoll::services {
namespace {

// Calls only what a signal handler may call. abort() ends the process once it
// returns.
void OnAbort(int /*signal*/) {
  constexpr char kLine[] =
      "plimsoll: the process ends at once (SIGABRT): the lines above say why, "
      "or, if none does, the system gave a library no memory\n";
  (void)!write(STDERR_FILENO, kLine, sizeof(kLine) - 1);
}

}  // namespace

void SayWhatAborts() {
  struct sigaction action = {};
  action.sa_handler = OnAbort;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace plimsoll::services
