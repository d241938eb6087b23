// A few pinned threads that run the same function together: they spin briefly
// between calls, then park, so that an idle engine costs nothing.
#ifndef PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
#define PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace plimsoll::kernels {

// Thread contract: Run is called from one thread at a time.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 256;

  // `n_threads` in [1, kMaxThreads] includes the caller of Run. With `pin`,
  // worker i stays on the i-th CPU that the process may use.
  explicit ThreadPool(int n_threads, bool pin = true);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;

  // Calls fn(thread) once for each thread in [0, n_threads()), the caller
  // being thread 0, and returns when all have finished.
  void Run(absl::FunctionRef<void(int thread)> fn);

  // Splits [0, n) into tasks of `grain` and lets threads take them; fn(begin,
  // end, thread) must not depend on who runs it.
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t, int)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_THREAD_POOL_H_
