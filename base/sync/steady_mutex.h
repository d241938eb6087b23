// A mutex whose timed waits do not follow the time of day.
#ifndef PLIMSOLL_BASE_SYNC_STEADY_MUTEX_H_
#define PLIMSOLL_BASE_SYNC_STEADY_MUTEX_H_

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace plimsoll {

// It is used like absl::Mutex where a thread waits for a time. In Abseil of
// 2022 (Debian 12) a timed wait ends at a time of day: if that is set back by
// an hour, the wait lasts an hour longer.
//
// A condition reads only what this lock guards. The thread that unlocks
// evaluates the conditions of the threads that wait, and wakes one of them only
// if its condition holds.
class ABSL_LOCKABLE SteadyMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    // A thread that waits may destroy this object once the lock is free.
    WakeReady();
    mu_.unlock();
  }

  // Unlocks, waits until `condition` holds, and locks again.
  void Await(const absl::Condition& condition)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    AwaitFor(condition, absl::InfiniteDuration());
  }

  // Like Await, but for no longer than `time`. Returns false if `condition`
  // does not hold then.
  bool AwaitFor(const absl::Condition& condition, absl::Duration time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    if (condition.Eval()) return true;
    WakeReady();
    const auto waiter = waiters_.emplace(waiters_.end(), condition);
    std::unique_lock<std::mutex> lock(mu_, std::adopt_lock);
    // `wait_for` counts by the steady clock. The condition may hold no more by
    // the time that the thread has the lock.
    const bool holds = waiter->wake.wait_for(
        lock, absl::ToChronoNanoseconds(std::min(time, kLongest)),
        [&condition] { return condition.Eval(); });
    lock.release();
    waiters_.erase(waiter);
    return holds;
  }

 private:
  struct Waiter {
    explicit Waiter(const absl::Condition& condition) : condition(condition) {}
    const absl::Condition& condition;
    std::condition_variable wake;
  };

  void WakeReady() {
    for (Waiter& waiter : waiters_) {
      if (waiter.condition.Eval()) waiter.wake.notify_one();
    }
  }

  // A clock's nanoseconds do not hold the end of an infinite time.
  static constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 100);

  std::mutex mu_;
  std::list<Waiter> waiters_;
};

// Holds the lock for the length of a scope.
class ABSL_SCOPED_LOCKABLE SteadyMutexLock {
 public:
  explicit SteadyMutexLock(SteadyMutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu)
      : mu_(mu) {
    mu_->Lock();
  }
  ~SteadyMutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  SteadyMutexLock(const SteadyMutexLock&) = delete;
  SteadyMutexLock& operator=(const SteadyMutexLock&) = delete;

 private:
  SteadyMutex* const mu_;
};

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_SYNC_STEADY_MUTEX_H_
