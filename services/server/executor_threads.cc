#include "services/server/executor_threads.h"

#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/sync/steady_notification.h"
#include "services/host/log.h"

namespace plimsoll::services {
namespace {

// The name of gRPC's executor threads, cut to the 15 bytes that Linux keeps.
constexpr char kExecutorName[] = "default-executo";
// The executor starts a thread if more than two pieces of work wait for one.
constexpr int kAlarmsPerThread = 4;
constexpr int kMaxRounds = 10;

// Work in the queue of a thread that the system refused never runs.
constexpr absl::Duration kMaxWait = absl::Seconds(10);

// Gives the executor work that blocks until all of it is queued. Ends the
// process if some of it does not run.
void FillExecutor(int n_threads) {
  const int n_alarms = kAlarmsPerThread * n_threads;
  absl::Notification are_queued;
  SteadyNotification is_done;
  std::atomic<int> n_left = n_alarms;
  std::deque<grpc::Alarm> alarms(static_cast<size_t>(n_alarms));
  for (grpc::Alarm& alarm : alarms) {
    alarm.Set(std::chrono::system_clock::now(), [&](bool) {
      are_queued.WaitForNotification();
      if (--n_left == 0) is_done.Notify();
    });
  }
  are_queued.Notify();
  if (is_done.WaitFor(kMaxWait)) return;
  Log(LogLevel::kError, "the system refused gRPC a thread that it needs");
  FlushLog();
  std::abort();
}

}  // namespace

void StartExecutorThreads() {
  const int n_cores = static_cast<int>(std::thread::hardware_concurrency());
  const int n_wanted = kExecutorThreadsPerCore * n_cores;
  for (int i = 0; i < kMaxRounds; ++i) {
    if (ExecutorThreads() >= n_wanted) return;
    FillExecutor(n_wanted);
  }
}

int ExecutorThreads() {
  int n = 0;
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    n += std::getline(file, name) && name == kExecutorName ? 1 : 0;
  }
  return n;
}

}  // namespace plimsoll::services
