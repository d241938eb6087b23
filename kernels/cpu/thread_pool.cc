// The pool's threads wait on one counter that every Run advances, and count
// themselves off on another.
#include "kernels/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/status_macros.h"

namespace plimsoll::kernels {
namespace {

// A pause takes 15 to 50 ns on current x86 cores: at most 50 us of spinning.
constexpr int kSpinIterations = 1000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Returns once `value` differs from `old`: spins, then parks in the kernel.
void WaitWhileEqual(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpinIterations; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  while (value.load(std::memory_order_acquire) == old) {
    value.wait(old, std::memory_order_acquire);
  }
}

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Pinning is a hint: where the system refuses it, the thread still runs.
void PinTo(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  (void)pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

}  // namespace

struct ThreadPool::Impl {
  // Each on a cache line of its own.
  alignas(64) std::atomic<uint32_t> epoch{0};
  alignas(64) std::atomic<uint32_t> n_running{0};
  alignas(64) std::atomic<int64_t> next{0};
  // Written before `epoch` advances, read after it was seen to.
  absl::FunctionRef<void(int)>* function = nullptr;
  bool is_stopping = false;
  std::vector<std::thread> workers;

  void Work(int thread) {
    uint32_t seen = 0;
    while (true) {
      WaitWhileEqual(epoch, seen);
      ++seen;
      if (is_stopping) return;
      (*function)(thread);
      if (n_running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        n_running.notify_one();
      }
    }
  }

  void Wake() {
    epoch.fetch_add(1, std::memory_order_acq_rel);
    epoch.notify_all();
  }
};

ThreadPool::ThreadPool(int n_threads, bool pin)
    : impl_(std::make_unique<Impl>()) {
  PLIMSOLL_CHECK(n_threads >= 1 && n_threads <= kMaxThreads,
                 "a pool has 1 to kMaxThreads threads");
  const std::vector<int> cpus = AllowedCpus();
  Impl* impl = impl_.get();
  for (int thread = 1; thread < n_threads; ++thread) {
    impl_->workers.emplace_back([impl, thread] { impl->Work(thread); });
    if (pin && !cpus.empty()) {
      PinTo(impl_->workers.back(),
            cpus[static_cast<size_t>(thread) % cpus.size()]);
    }
  }
}

ThreadPool::~ThreadPool() {
  impl_->is_stopping = true;
  impl_->Wake();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::n_threads() const {
  return static_cast<int>(impl_->workers.size()) + 1;
}

void ThreadPool::Run(absl::FunctionRef<void(int thread)> fn) {
  if (impl_->workers.empty()) return fn(0);
  impl_->function = &fn;
  impl_->n_running.store(static_cast<uint32_t>(impl_->workers.size()),
                         std::memory_order_relaxed);
  impl_->Wake();
  fn(0);
  uint32_t left = impl_->n_running.load(std::memory_order_acquire);
  while (left != 0) {
    WaitWhileEqual(impl_->n_running, left);
    left = impl_->n_running.load(std::memory_order_acquire);
  }
}

void ThreadPool::ParallelFor(
    int64_t n, int64_t grain,
    absl::FunctionRef<void(int64_t, int64_t, int)> fn) {
  grain = std::max<int64_t>(grain, 1);
  if (n <= 0) return;
  if (n <= grain || impl_->workers.empty()) return fn(0, n, 0);
  std::atomic<int64_t>& next = impl_->next;
  next.store(0, std::memory_order_relaxed);
  Run([&](int thread) {
    while (true) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      fn(begin, std::min(begin + grain, n), thread);
    }
  });
}

}  // namespace plimsoll::kernels
