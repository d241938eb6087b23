// A few pinned threads that share a loop. They spin briefly between loops and
// then sleep, so that an idle engine costs nothing.
#ifndef PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
#define PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace plimsoll::kernels {

// Which CPUs the workers of a pool use: one of its own for each, or any.
enum class WorkerCpus { kOneEach, kAny };

// Thread contract: ParallelFor is called from one thread at a time.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 256;

  // `n_threads` in [1, kMaxThreads] includes the caller. With kOneEach, worker
  // i stays on the i-th CPU that the process may use.
  explicit ThreadPool(int n_threads, WorkerCpus cpus = WorkerCpus::kOneEach);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;

  // Moves the calling thread, which is about to call ParallelFor, off a CPU
  // that a worker is pinned to, if there are other CPUs. The system would let
  // both share the CPU for some 20 ms. The set of CPUs that the thread may use
  // stays as it was. Returns true if the thread was on a worker's CPU.
  bool MoveOffWorkerCpus() const;

  // Splits [0, n) into tasks of `grain` and lets threads take them; the caller
  // is thread 0. Returns when all tasks are done. fn(begin, end, thread) must
  // not depend on which thread runs it. The call waits for a worker that other
  // processes keep from its CPU only if that worker holds a task.
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t, int)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
