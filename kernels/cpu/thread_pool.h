// A few pinned threads that share a loop: they spin briefly between loops, then
// park, so that an idle engine costs nothing.
#ifndef PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
#define PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>

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

  // Moves the calling thread, which is about to call ParallelFor, off a CPU
  // that a worker is pinned to, if there are others: the system would let both
  // share it for some 20 ms. Where the thread may run stays as it was. True if
  // it was on such a CPU.
  bool LeaveWorkersCpus() const;

  // Splits [0, n) into tasks of `grain` and lets threads take them, the caller
  // being thread 0; returns when all are done. fn(begin, end, thread) must not
  // depend on who runs it: a worker that other processes keep from its CPU is
  // not waited for unless it holds a task.
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t, int)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
