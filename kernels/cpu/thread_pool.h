// A few pinned threads that share a loop: they spin briefly between loops, then
// park, so that an idle engine costs nothing.
#ifndef PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
#define PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"

namespace plimsoll::kernels {

// Thread contract: ParallelFor is called from one thread at a time.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 256;

  // `n_threads` in [1, kMaxThreads] includes the caller. With `pin`,
  // worker i stays on the i-th CPU that the process may use.
  explicit ThreadPool(int n_threads, bool pin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;

  // Splits [0, n) into tasks of `grain` and lets threads take them, the caller
  // being thread 0; returns when all are done. fn(begin, end, thread) must not
  // depend on who runs it: a worker that other processes keep from its CPU is
  // not waited for unless it holds a task.
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t, int)> fn);

 private:
  friend class ApartFromWorkers;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// While it lives, the thread that made it keeps off the CPUs that workers are
// pinned to, if there are others: for threads that call ParallelFor again and
// again, which the system would let share a CPU with a worker for some 20 ms.
class ApartFromWorkers {
 public:
  explicit ApartFromWorkers(const ThreadPool& pool);
  ~ApartFromWorkers();
  ApartFromWorkers(const ApartFromWorkers&) = delete;
  ApartFromWorkers& operator=(const ApartFromWorkers&) = delete;

 private:
  std::vector<int> cpus_before_;  // empty: nothing was changed
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
