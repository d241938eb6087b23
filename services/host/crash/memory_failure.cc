#include "services/host/crash/memory_failure.h"

#include <unistd.h>

#include <cstdlib>

namespace plimsoll::services {
namespace {

void EndProcess() {
  constexpr char kLine[] =
      "the system gave this server no memory while it started or ended\n";
  [[maybe_unused]] const ssize_t n =
      write(STDERR_FILENO, kLine, sizeof(kLine) - 1);
  std::abort();
}

}  // namespace

MemoryFailureScope::MemoryFailureScope(MemoryFailure failure)
    : before_(std::set_new_handler(
          failure == MemoryFailure::kEndsProcess ? EndProcess : nullptr)) {}

}  // namespace plimsoll::services
