// The threads on which planner and worker compute for calls, so that gRPC's own
// threads never compute.
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

// The expected longest time of a piece of work, from its request.
enum class WorkCost {
  kQuick,  // some milliseconds
  kLong,   // more
};

// A request of at most this many bytes is prepared in well below a millisecond
// if it has no constraint. The transport's thread prepares it at once, because
// the first token waits for that.
inline constexpr size_t kMaxInlineBytes = 4 << 10;
// A request of at most this many bytes is prepared in some milliseconds.
inline constexpr size_t kMaxQuickBytes = 64 << 10;

// Work waits in one bounded queue, and peers take turns. Quick work goes before
// long work, and long work never takes all threads (if there are at least two),
// so that quick work waits for quick work only. While long work waits, one
// thread does long work, so that long work does not wait forever either.
//
// Thread-safe, except for construction and destruction.
class WorkPool {
 public:
  // The most waiting pieces of work of all peers together, without further work
  // of running calls. A large request counts as several pieces, one for each
  // kPlaceBytes, so that waiting requests hold 32 MiB at most.
  static constexpr size_t kMaxQueued = 64;
  static constexpr size_t kPlaceBytes = 512 << 10;
  static constexpr int kMaxThreads = 8;
  // The pool's threads add this to their "nice" value. Each then takes a
  // twentieth of a core from a thread that wants the whole core. A step waits
  // for the slowest of its threads, so a step beside a pool thread on each of
  // two cores takes a tenth longer.
  static constexpr int kNice = 13;
  // A refused client should try again after this time.
  static constexpr absl::Duration kRetryDelay = absl::Seconds(1);

  // Called exactly once. With OK it does the work, on a thread of the pool.
  // With an error the work is dropped, and the function must end its call with
  // that error at once.
  using Work = std::function<void(const absl::Status&)>;
  struct Job {
    std::string peer;  // takes this peer's turn
    WorkCost cost = WorkCost::kLong;
    std::shared_ptr<CallStop> stop;
    Work work;
    // True for further work of a call whose earlier work the queue took. It is
    // never refused or dropped. The code that submits it limits the number of
    // such calls.
    bool goes_on = false;
    size_t request_bytes = 0;  // bytes of the request while it waits
  };
  struct Options {
    // 0: half the cores, at least 2.
    int n_threads = 0;
    // Starts a thread; returns nothing if it cannot.
    std::function<std::unique_ptr<Background>(std::function<void()>)> start =
        StartThread;
  };

  // Continues with fewer threads if some cannot be started.
  // Errors: kInvalidArgument for more than kMaxThreads; kResourceExhausted if
  // none can be started.
  static absl::StatusOr<std::unique_ptr<WorkPool>> Start(
      const Options& options);
  static absl::StatusOr<std::unique_ptr<WorkPool>> Start() {
    return Start(Options());
  }
  // Aborts, and waits for the running work.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Queues work. If the queue is full, the newest work of the peer with the
  // most waiting work is dropped with kResourceExhausted until there is room.
  // If this peer would then have as much waiting work as that peer, this work
  // is refused instead. Submit may call the work of another job, but never this
  // job's work. So the caller must not hold a lock that works take. Errors:
  // kResourceExhausted with a retry delay if the queue is full; the error of
  // job.stop; kUnavailable once aborted. After an error the work is not called.
  absl::Status Submit(Job job) ABSL_LOCKS_EXCLUDED(mu_);

  // Stops the work of one call: drops its waiting work and tells its running
  // work. Later submissions with `stop` are refused.
  void Cancel(CallStop& stop) ABSL_LOCKS_EXCLUDED(mu_);
  // Drops all waiting work and tells all running work to stop, for good.
  void Abort() ABSL_LOCKS_EXCLUDED(mu_);

  int n_threads() const { return static_cast<int>(threads_.size()); }
  size_t n_queued() const ABSL_LOCKS_EXCLUDED(mu_);
  size_t n_running() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until `n` pieces of work run and at most `n_queued` wait. Returns
  // false if that took longer than `timeout`.
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
  // Makes room for a job, if there is none, by moving others to `dropped`.
  // Returns false, and moves nothing, if the job may not displace others.
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
