// The threads on which planner and worker compute for calls, so that gRPC's
// threads never do.
#ifndef PLIMSOLL_SERVICES_SERVER_WORK_POOL_H_
#define PLIMSOLL_SERVICES_SERVER_WORK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/host/background.h"
#include "services/server/call_stop.h"

namespace plimsoll::services {

// How long a piece of work takes at most, as its request says beforehand.
enum class WorkCost {
  kQuick,  // some milliseconds
  kLong,   // more
};

// Work waits in one bounded queue. Peers take turns. Quick work goes before
// long work, and long work never takes all threads (where there are two), so
// that quick work waits for quick work only. As long as some long work waits,
// one thread does it, so that it is never left waiting either.
//
// Thread-safe, but for construction and destruction.
class WorkPool {
 public:
  // Work that waits, of all peers together, besides that of calls that go on. A
  // large request counts as several: one for each kPlaceBytes, so that those
  // that wait are 32 MiB at most.
  static constexpr size_t kMaxQueued = 64;
  static constexpr size_t kPlaceBytes = 512 << 10;
  static constexpr int kMaxThreads = 8;
  // What its threads add to their "nice" value: they take a tenth of a core
  // from a thread that wants all of it.
  static constexpr int kNice = 10;
  // When a client that was refused should come back.
  static constexpr absl::Duration kRetryDelay = absl::Seconds(1);

  // Called exactly once. With OK: does the work, on a thread of the pool. With
  // an error: the work is dropped; it ends its call with that error, at once.
  using Work = std::function<void(const absl::Status&)>;
  struct Job {
    std::string peer;  // whose turn it takes
    WorkCost cost = WorkCost::kLong;
    std::shared_ptr<CallStop> stop;
    Work work;
    // More work of a call that the queue took before: it is never refused, nor
    // made to give way. Whoever submits bounds the number of such calls.
    bool goes_on = false;
    size_t request_bytes = 0;  // that are held while it waits
  };
  struct Options {
    // 0: half the cores, at least 2.
    int n_threads = 0;
    // How a thread is started; nothing if it cannot be.
    std::function<std::unique_ptr<Background>(std::function<void()>)> start =
        StartThread;
  };

  // Goes on with fewer threads if not all of them can be started.
  // Errors: kInvalidArgument for more than kMaxThreads; kResourceExhausted if
  // not one can be started.
  static absl::StatusOr<std::unique_ptr<WorkPool>> Start(
      const Options& options);
  static absl::StatusOr<std::unique_ptr<WorkPool>> Start() {
    return Start(Options());
  }
  // Aborts, and waits for the work that runs.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Queues work. If the queue is full, the newest work of the peer that has
  // most there is dropped with kResourceExhausted, until there is room, unless
  // this peer would then have as much: then this work is refused. May call the
  // work of another job, never that of this one: the caller must not hold a
  // lock that works take. Errors: kResourceExhausted with a retry delay if the
  // queue is full; what `stop` says; kUnavailable once aborted. The work is not
  // called then.
  absl::Status Submit(Job job) ABSL_LOCKS_EXCLUDED(mu_);

  // Stops the work of one call: drops what waits, tells what runs. Later
  // submissions with `stop` are refused.
  void Cancel(CallStop& stop) ABSL_LOCKS_EXCLUDED(mu_);
  // Drops all work that waits and tells what runs to stop, for good.
  void Abort() ABSL_LOCKS_EXCLUDED(mu_);

  int n_threads() const { return static_cast<int>(threads_.size()); }
  size_t n_queued() const ABSL_LOCKS_EXCLUDED(mu_);
  size_t n_running() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until `n` pieces of work run and no more than `n_queued` wait. False
  // if that took longer than `timeout`.
  bool Await(size_t n_running, size_t n_queued, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mu_);

  static std::unique_ptr<Background> StartThread(std::function<void()> work);

 private:
  using Jobs = std::list<Job>;

  WorkPool() = default;

  void RunThread() ABSL_LOCKS_EXCLUDED(mu_);
  bool MayWake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool PrefersLong() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayRunLong() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Jobs::iterator NextOf(WorkCost cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Jobs::iterator Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes room for a job, where there is none, by moving others to `dropped`.
  // False if it may not: then none is moved.
  bool MakeRoom(const Job& job, Jobs& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  Jobs queue_ ABSL_GUARDED_BY(mu_);  // oldest first
  Jobs running_ ABSL_GUARDED_BY(mu_);
  int n_long_running_ ABSL_GUARDED_BY(mu_) = 0;
  bool last_was_long_ ABSL_GUARDED_BY(mu_) = false;
  std::string last_peer_ ABSL_GUARDED_BY(mu_);
  bool is_aborted_ ABSL_GUARDED_BY(mu_) = false;
  int n_started_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::unique_ptr<Background>> threads_;  // set by Start()
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_WORK_POOL_H_
