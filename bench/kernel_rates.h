// The backend that the benchmarks of kernels run, what its machine can do, and
// rates as text.
#ifndef PLIMSOLL_BENCH_KERNEL_RATES_H_
#define PLIMSOLL_BENCH_KERNEL_RATES_H_

#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/backend.h"
#include "kernels/cpu/product_rate.h"
#include "kernels/cpu/read_bandwidth.h"
#include "kernels/cpu/thread_pool.h"

namespace plimsoll::kernels {

using Clock = std::chrono::steady_clock;

// More than caches hold, so that a GEMV reads from memory as a model does.
inline constexpr int64_t kMemoryBytes = int64_t{128} << 20;

inline ThreadPool& ThePool() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool is_known = sched_getaffinity(0, sizeof(set), &set) == 0;
  static ThreadPool pool(is_known ? CPU_COUNT(&set) : 1);
  return pool;
}

inline Backend& TheBackend() {
  static const std::unique_ptr<Backend> backend = NewCpuBackend(ThePool());
  return *backend;
}

inline double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The best rate at which `work`, which returns how much it did, is done in a
// quarter of a second: others only take away.
inline double BestRate(absl::FunctionRef<int64_t()> work) {
  constexpr double kSeconds = 0.25;
  double best = 0;
  const auto start = Clock::now();
  while (SecondsSince(start) < kSeconds) {
    const auto begin = Clock::now();
    const auto done = static_cast<double>(work());
    best = std::max(best, done / SecondsSince(begin));
  }
  return best;
}

struct Machine {
  double read_bytes_per_s = 0;
  double products_per_s = 0;
  double float_products_per_s = 0;
};

// What the machine can do.
inline const Machine& TheMachine() {
  static const Machine machine = [] {
    const std::vector<uint64_t> words(kMemoryBytes / sizeof(uint64_t), 1);
    const int64_t n_tasks = 16 * ThePool().n_threads();
    Machine found;
    found.read_bytes_per_s = BestRate([&] {
      benchmark::DoNotOptimize(ReadAll(words, ThePool()));
      return kMemoryBytes;
    });
    found.products_per_s =
        BestRate([&] { return MultiplyOnes(n_tasks, ThePool()); });
    found.float_products_per_s =
        BestRate([&] { return MultiplyFloatOnes(n_tasks, ThePool()); });
    return found;
  }();
  return machine;
}

inline std::string Figure(const char* format, double per_s, double share) {
  char text[96];
  std::snprintf(text, sizeof(text), format, per_s / 1e9, 100 * share);
  return text;
}

// "24.1 GB/s, 78 % of read bandwidth"
inline std::string ReadFigure(double bytes_per_s) {
  return Figure("%.1f GB/s, %.0f %% of read bandwidth", bytes_per_s,
                bytes_per_s / TheMachine().read_bytes_per_s);
}

// "812 GOP/s, 40 % of peak"; a multiply-add is two operations.
inline std::string ProductFigure(double products_per_s) {
  return Figure("%.0f GOP/s, %.0f %% of peak", 2 * products_per_s,
                products_per_s / TheMachine().products_per_s);
}
inline std::string FloatProductFigure(double products_per_s) {
  return Figure("%.0f GOP/s, %.0f %% of peak of floats", 2 * products_per_s,
                products_per_s / TheMachine().float_products_per_s);
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_KERNEL_RATES_H_
