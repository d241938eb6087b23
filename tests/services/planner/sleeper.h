// A process of a test that does nothing.
#ifndef PLIMSOLL_TESTS_SERVICES_PLANNER_SLEEPER_H_
#define PLIMSOLL_TESTS_SERVICES_PLANNER_SLEEPER_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "plimsoll/v1/planner.pb.h"
#include "services/host/process_identity.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services::testing {

// A process that does nothing until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) pause();
    }
  }
  ~Sleeper() { Kill(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // As kill -9.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  // As kill -STOP; it still lives.
  void Stop() { kill(pid_, SIGSTOP); }

  v1::ProcessIdentity Identity() const {
    const std::optional<ProcessIdentity> own = OwnIdentity();
    v1::ProcessIdentity identity;
    identity.set_pid(static_cast<uint32_t>(pid_));
    identity.set_start_ticks(ToUint64(StartTicks(pid_).value_or(0)));
    identity.set_boot_id(own->boot_id);
    identity.set_pid_namespace(ToUint64(own->pid_namespace));
    return identity;
  }

 private:
  pid_t pid_;
};

}  // namespace plimsoll::services::testing

#endif  // PLIMSOLL_TESTS_SERVICES_PLANNER_SLEEPER_H_
