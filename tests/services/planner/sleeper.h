// A process of a test that does nothing, and what else tests of watches need.
#ifndef PLIMSOLL_TESTS_SERVICES_PLANNER_SLEEPER_H_
#define PLIMSOLL_TESTS_SERVICES_PLANNER_SLEEPER_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

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

  // Kills the process as kill -9 does.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  // Stops the process as kill -STOP does; it still lives.
  void Stop() { kill(pid_, SIGSTOP); }

  ProcessIdentity OwnName() const {
    ProcessIdentity identity = OwnIdentity().value_or(ProcessIdentity());
    identity.pid = pid_;
    identity.start_ticks = StartTicks(pid_).value_or(0);
    return identity;
  }
  v1::ProcessIdentity Identity() const {
    const ProcessIdentity name = OwnName();
    v1::ProcessIdentity identity;
    identity.set_pid(static_cast<uint32_t>(name.pid));
    identity.set_start_ticks(ToUint64(name.start_ticks));
    identity.set_boot_id(name.boot_id);
    identity.set_pid_namespace(ToUint64(name.pid_namespace));
    return identity;
  }

 private:
  pid_t pid_;
};

// How many descriptors of processes this process has.
inline int CountPidfds() {
  int n_found = 0;
  for (const auto& file :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;  // it may be closed meanwhile
    const std::string target = std::filesystem::read_symlink(file, error);
    n_found += target.find("pidfd") != std::string::npos;
  }
  return n_found;
}

// While it lives, this process can open nothing.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    // The limit is not 0, so that open descriptors may still be polled.
    const int next = dup(0);
    close(next);
    const rlimit none = {static_cast<rlim_t>(next), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace plimsoll::services::testing

#endif  // PLIMSOLL_TESTS_SERVICES_PLANNER_SLEEPER_H_
