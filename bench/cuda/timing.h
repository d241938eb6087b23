// Times calls of the CUDA backend, makes the memory that they read, and prints
// what they took.
#ifndef PLIMSOLL_BENCH_CUDA_TIMING_H_
#define PLIMSOLL_BENCH_CUDA_TIMING_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "bench/must.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {

using bench::Must;

using Clock = std::chrono::steady_clock;

struct Rates {
  double copy_bytes = 0;
  double matrix_operations = 0;  // 0 if unknown
};

// Seconds that one of many queued calls takes: the median of several rounds.
inline double Seconds(Backend& backend,
                      absl::FunctionRef<absl::Status(int)> call) {
  constexpr int kRounds = 7;
  constexpr double kRoundSeconds = 0.02;
  int calls = 1;
  const auto round = [&] {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) Must(call(i));
    Must(backend.Synchronize());
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  (void)round();
  while (calls < (1 << 14) && round() < kRoundSeconds) calls *= 2;
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) seconds.push_back(round() / calls);
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2,
                   seconds.end());
  return seconds[kRounds / 2];
}

// Device memory of random bytes. Random scales of weights may have any size,
// but times do not depend on that.
inline Buffer RandomBytes(Backend& backend, int64_t bytes) {
  Buffer buffer = Must(backend.Allocate(bytes));
  static const auto* piece = [] {
    auto* made = new std::vector<std::byte>(size_t{16} << 20);
    std::mt19937 random(1);
    for (std::byte& byte : *made) byte = static_cast<std::byte>(random());
    return made;
  }();
  const auto size = static_cast<int64_t>(piece->size());
  for (int64_t at = 0; at < bytes; at += size) {
    const int64_t n = std::min(size, bytes - at);
    Must(backend.Upload(std::span(*piece).first(static_cast<size_t>(n)),
                        buffer.view().Slice(at, n)));
  }
  return buffer;
}

inline Buffer RandomFloats(Backend& backend, int64_t n) {
  Buffer buffer = Must(backend.Allocate(n * 4));
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = uniform(random);
  Must(backend.Upload(std::as_bytes(std::span(values)),
                      buffer.view().Slice(0, n * 4)));
  return buffer;
}

inline float* Floats(const Buffer& buffer) {
  return reinterpret_cast<float*>(buffer.data());
}

inline void PrintLine(const std::string& what, double seconds,
                      const std::string& rate, double share) {
  std::printf("%-44s %10.1f us  %-18s", what.c_str(), seconds * 1e6,
              rate.c_str());
  if (share > 0) std::printf(" %5.1f %%", share * 100);
  std::printf("\n");
  std::fflush(stdout);
}

inline std::string Gigabytes(double bytes_per_second) {
  return absl::StrCat(std::lround(bytes_per_second / 1e9), " GB/s");
}
inline std::string Teraflops(double operations_per_second) {
  return absl::StrCat(std::lround(operations_per_second / 1e12), " TFLOP/s");
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_CUDA_TIMING_H_
