// The pool's threads wait on a counter that every loop advances, and enter the
// loop through a gate that the caller shuts when no index is left.
#include "kernels/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "kernels/start_thread.h"

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

// Returns the value that differs from `old`: spins, then parks in the kernel.
uint32_t WaitWhileEqual(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpinIterations; ++i) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    Pause();
  }
  uint32_t now = value.load(std::memory_order_acquire);
  while (now == old) {
    value.wait(old, std::memory_order_acquire);
    now = value.load(std::memory_order_acquire);
  }
  return now;
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
void PinTo(pthread_t thread, std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  (void)pthread_setaffinity_np(thread, sizeof(set), &set);
}

}  // namespace

struct ThreadPool::Impl {
  // The gate: this bit, and the number of workers inside.
  static constexpr uint32_t kShut = uint32_t{1} << 31;

  // Each of these is on a cache line of its own.
  alignas(64) std::atomic<uint32_t> n_loops{0};
  alignas(64) std::atomic<uint32_t> gate{kShut};
  alignas(64) std::atomic<int64_t> next{0};
  // Workers that wake late read it, whatever the gate.
  std::atomic<bool> is_stopping{false};
  // The loop. It is written while the gate is shut and nobody is inside.
  alignas(64) int64_t n = 0;
  int64_t grain = 1;
  absl::FunctionRef<void(int64_t, int64_t, int)>* function = nullptr;
  std::vector<std::thread> workers;
  // CPUs that no worker is pinned to. Empty if workers are on every CPU, or if
  // they are not pinned.
  std::vector<int> free_cpus;

  void Work(int thread) {
    uint32_t seen = 0;
    while (true) {
      seen = WaitWhileEqual(n_loops, seen);
      if (is_stopping.load(std::memory_order_relaxed)) return;
      if (!EnterLoop()) continue;
      TakeTasks(thread);
      ExitLoop();
    }
  }

  void TakeTasks(int thread) {
    while (true) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      (*function)(begin, std::min(begin + grain, n), thread);
    }
  }

  // False for a worker that wakes when the loop is over.
  bool EnterLoop() {
    uint32_t inside = gate.load(std::memory_order_acquire);
    while ((inside & kShut) == 0) {
      if (gate.compare_exchange_weak(inside, inside + 1,
                                     std::memory_order_acq_rel)) {
        return true;
      }
    }
    return false;
  }

  void ExitLoop() {
    if (gate.fetch_sub(1, std::memory_order_acq_rel) == (kShut | 1)) {
      gate.notify_one();
    }
  }

  void Open() {
    next.store(0, std::memory_order_relaxed);
    gate.store(0, std::memory_order_release);
    Wake();
  }

  // Returns when nobody is inside any more.
  void Shut() {
    uint32_t inside = gate.fetch_or(kShut, std::memory_order_acq_rel) | kShut;
    while (inside != kShut) inside = WaitWhileEqual(gate, inside);
  }

  void Wake() {
    n_loops.fetch_add(1, std::memory_order_acq_rel);
    n_loops.notify_all();
  }
};

ThreadPool::ThreadPool(int n_threads, WorkerCpus worker_cpus)
    : impl_(std::make_unique<Impl>()) {
  const bool pin = worker_cpus == WorkerCpus::kOneEach;
  PLIMSOLL_CHECK(n_threads >= 1 && n_threads <= kMaxThreads,
                 "a pool has 1 to kMaxThreads threads");
  const std::vector<int> cpus = AllowedCpus();
  Impl* impl = impl_.get();
  for (int thread = 1; thread < n_threads; ++thread) {
    auto worker = StartThread([impl, thread] { impl->Work(thread); });
    if (!worker.ok()) return;  // n_threads() tells
    impl_->workers.push_back(*std::move(worker));
    if (pin && !cpus.empty()) {
      const size_t cpu = static_cast<size_t>(thread) % cpus.size();
      PinTo(impl_->workers.back().native_handle(), {&cpus[cpu], 1});
    }
  }
  // Workers have the CPUs from the second on, or all if there are more workers.
  const auto n = static_cast<size_t>(n_threads);
  if (pin && n <= cpus.size()) {
    impl_->free_cpus.push_back(cpus.front());
    impl_->free_cpus.insert(impl_->free_cpus.end(), cpus.begin() + n_threads,
                            cpus.end());
  }
}

ThreadPool::~ThreadPool() {
  impl_->is_stopping.store(true, std::memory_order_relaxed);
  impl_->Wake();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::n_threads() const {
  return static_cast<int>(impl_->workers.size()) + 1;
}

bool ThreadPool::MoveOffWorkerCpus() const {
  const std::vector<int>& free_cpus = impl_->free_cpus;
  if (free_cpus.empty() || std::ranges::count(free_cpus, sched_getcpu()) > 0) {
    return false;
  }
  // Threads that this thread starts later would inherit its set of CPUs, so the
  // set is put back. This runs inside a step: nothing is allocated.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  PinTo(pthread_self(), free_cpus);
  (void)pthread_setaffinity_np(pthread_self(), sizeof(allowed), &allowed);
  return true;
}

void ThreadPool::ParallelFor(
    int64_t n, int64_t grain,
    absl::FunctionRef<void(int64_t, int64_t, int)> fn) {
  grain = std::max<int64_t>(grain, 1);
  if (n <= 0) return;
  if (n <= grain || impl_->workers.empty()) return fn(0, n, 0);
  impl_->n = n;
  impl_->grain = grain;
  impl_->function = &fn;
  impl_->Open();
  impl_->TakeTasks(0);
  impl_->Shut();
}

}  // namespace plimsoll::kernels
