// The emulator of a block's threads, which the CUDA kernels are tested on: it
// does what CUDA says, and dies where CUDA says nothing.
#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/mat_mul/matrix.cuh"
#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::cuda_emulated {
namespace {

void Emulate(Grid grid, int n_threads, int64_t shared_bytes,
             absl::FunctionRef<void()> kernel) {
  RunGrid({static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
           static_cast<unsigned>(grid.z)},
          n_threads, shared_bytes, kernel);
}

TEST(CudaEmulationTest, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(2 * 3 * 4 * 64);
  Emulate({2, 3, 4}, 64, 0, [&] {
    const unsigned block =
        (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    ++runs[block * blockDim.x + threadIdx.x];
  });
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 1),
            static_cast<int64_t>(runs.size()));
}

TEST(CudaEmulationTest, SharedMemoryIsExchangedAtBarriers) {
  constexpr int kThreads = 256;
  std::vector<int> got(kThreads);
  Emulate({3}, kThreads, kThreads * 4, [&] {
    auto* shared = reinterpret_cast<int*>(DynamicShared());
    for (int round = 0; round < 5; ++round) {
      shared[ThreadIndex()] = ThreadIndex() + round;
      __syncthreads();
      got[static_cast<size_t>(ThreadIndex())] =
          shared[(ThreadIndex() + 100) % kThreads];
      __syncthreads();
    }
  });
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(got[static_cast<size_t>(t)], (t + 100) % kThreads + 4);
  }
}

// Each of two orders hides a missing barrier from some threads, so that both
// together show it to all.
TEST(CudaEmulationTest, AMissingBarrierShows) {
  std::vector<int> first(2);
  Emulate({2}, 64, 4, [&] {
    auto* shared = reinterpret_cast<int*>(DynamicShared());
    if (ThreadIndex() == 0) *shared = 1;
    if (ThreadIndex() == 63) first[blockIdx.x] = *shared;
  });
  EXPECT_EQ(std::count(first.begin(), first.end(), 1), 1);
}

TEST(CudaEmulationTest, SharedMemoryBeginsAsGarbage) {
  std::vector<float> got(2);
  Emulate({2}, 32, 4, [&] {
    auto* shared = reinterpret_cast<float*>(DynamicShared());
    if (ThreadIndex() == 0) {
      got[blockIdx.x] = *shared;
      *shared = 1;
    }
  });
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_TRUE(std::isnan(got[1]));
}

TEST(CudaEmulationTest, WarpsShuffleAndReduceByThemselves) {
  Emulate({1}, 96, 12, [] {
    const int warp = WarpIndex();
    EXPECT_EQ(__shfl_sync(kFullWarp, ThreadIndex(), 5), warp * 32 + 5);
    EXPECT_EQ(__shfl_xor_sync(kFullWarp, ThreadIndex(), 3), ThreadIndex() ^ 3);
    EXPECT_EQ(WarpSum(LaneIndex()), 31 * 16);
    EXPECT_EQ(WarpMax(static_cast<float>(ThreadIndex())),
              static_cast<float>(warp * 32 + 31));
    auto* shared = reinterpret_cast<int*>(DynamicShared());
    EXPECT_EQ(BlockSum(ThreadIndex(), shared), 95 * 48);
    // Warps need not make the same number of operations.
    for (int i = 0; i < warp; ++i) __syncwarp();
  });
}

TEST(CudaEmulationTest, ReductionsHaveTheBitsOfAButterflyOfShuffles) {
  Emulate({1}, 64, 0, [] {
    const float x = 1.0f / static_cast<float>(1 + ThreadIndex());
    float sum = x;
    for (int mask = kWarpThreads / 2; mask > 0; mask /= 2) {
      sum += __shfl_xor_sync(kFullWarp, sum, mask);
    }
    EXPECT_EQ(WarpSum(x), sum);
  });
}

// What a kernel does before its wait meets what the kernel before has not done
// yet, in every thread of the first block; barriers are no obstacle.
TEST(CudaEmulationTest, AGridBeginsBeforeWhatIsBeforeItHasRun) {
  constexpr size_t kThreads = 64;
  for (int round = 0; round < 2; ++round) {  // both orders of threads
    std::vector<int> given(kThreads, -1);
    std::vector<int> early(2 * kThreads);
    std::vector<int> late(2 * kThreads);
    RunAfter(
        [&] {
          Emulate({3}, 32, 0, [&] {
            WaitForKernelsBefore();
            __syncthreads();
            std::fill(given.begin(), given.end(),
                      static_cast<int>(blockIdx.x + gridDim.x));
          });
        },
        [&] {
          Emulate({2}, kThreads, 0, [&] {
            const auto thread = static_cast<size_t>(ThreadIndex());
            const size_t at = blockIdx.x * kThreads + thread;
            early[at] = given[thread];
            __syncthreads();
            WaitForKernelsBefore();
            __syncthreads();
            late[at] = given[thread];
            WaitForKernelsBefore();
          });
        });
    EXPECT_EQ(std::count(early.begin(), early.end(), -1), kThreads);
    EXPECT_EQ(std::count(late.begin(), late.end(), 5), 2 * kThreads);
  }
}

TEST(CudaEmulationTest, BytesOfPairsAreTakenApart) {
  const uint2 values = {0x22221111u, 0xFF44B3A3u};
  EXPECT_EQ(LowBytes(values), 0x44A32211u);
  EXPECT_EQ(HighBytes({0x12345678u, 0xABCDEF01u}), 0xABEF1256u);
}

// A product of bytes against plain loops, with the operands spread over lanes
// as the PTX manual says.
template <int kSteps, bool kIsSignedA, bool kIsSignedB>
void CheckMma() {
  std::mt19937 random(1);
  constexpr int kDepth = 16 * kSteps;
  std::vector<int> a(16 * kDepth);
  std::vector<int> b(kDepth * 8);
  const auto byte = [&](bool is_signed) {
    return static_cast<int>(random() % 256) - (is_signed ? 128 : 0);
  };
  for (int& value : a) value = byte(kIsSignedA);
  for (int& value : b) value = byte(kIsSignedB);
  Emulate({1}, 32, 0, [&] {
    const int g = LaneIndex() / 4;
    const int t = LaneIndex() % 4;
    uint32_t mine_a[2 * kSteps] = {};
    uint32_t mine_b[kSteps] = {};
    for (int s = 0; s < kSteps; ++s) {
      for (int i = 0; i < 4; ++i) {
        const int k = 16 * s + 4 * t + i;
        const auto put = [&](int value, uint32_t& word) {
          word |= (static_cast<uint32_t>(value) & 0xFFu) << (8 * i);
        };
        put(a[static_cast<size_t>(g * kDepth + k)], mine_a[2 * s]);
        put(a[static_cast<size_t>((g + 8) * kDepth + k)], mine_a[2 * s + 1]);
        put(b[static_cast<size_t>(k * 8 + g)], mine_b[s]);
      }
    }
    int32_t d[4] = {1, 2, 3, 4};
    EmulateMma<kSteps, kIsSignedA, kIsSignedB>(mine_a, mine_b, d);
    for (int e = 0; e < 4; ++e) {
      int expected = e + 1;
      for (int k = 0; k < kDepth; ++k) {
        expected += a[static_cast<size_t>((g + e / 2 * 8) * kDepth + k)] *
                    b[static_cast<size_t>(k * 8 + 2 * t + e % 2)];
      }
      EXPECT_EQ(d[e], expected);
    }
  });
}

TEST(CudaEmulationTest, MatrixProductsAreThoseOfPlainLoops) {
  CheckMma<2, true, true>();
  CheckMma<2, true, false>();
  CheckMma<2, false, true>();
  CheckMma<2, false, false>();
  CheckMma<1, true, true>();
  CheckMma<1, true, false>();
}

template <bool kIsBf16>
void CheckFloatMma() {
  std::mt19937 random(3);
  // Exact in either type, and so are the sums.
  const auto value = [&] { return static_cast<float>(random() % 64) - 32.0f; };
  std::vector<float> a(16 * 16);
  std::vector<float> b(16 * 8);
  std::generate(a.begin(), a.end(), value);
  std::generate(b.begin(), b.end(), value);
  Emulate({1}, 32, 0, [&] {
    const int g = LaneIndex() / 4;
    const int t = LaneIndex() % 4;
    const auto pair_of_a = [&](int row, int column) {
      const float* at = &a[static_cast<size_t>(row * 16 + column)];
      return PackPair<kIsBf16>(at[0], at[1]);
    };
    const auto pair_of_b = [&](int row) {
      return PackPair<kIsBf16>(b[static_cast<size_t>(row * 8 + g)],
                               b[static_cast<size_t>((row + 1) * 8 + g)]);
    };
    const uint32_t mine_a[4] = {pair_of_a(g, 2 * t), pair_of_a(g + 8, 2 * t),
                                pair_of_a(g, 2 * t + 8),
                                pair_of_a(g + 8, 2 * t + 8)};
    const uint32_t mine_b[2] = {pair_of_b(2 * t), pair_of_b(2 * t + 8)};
    float d[4] = {1, 2, 3, 4};
    MmaFloat<kIsBf16>(mine_a, mine_b, d);
    for (int e = 0; e < 4; ++e) {
      auto expected = static_cast<float>(e + 1);
      for (int k = 0; k < 16; ++k) {
        expected += a[static_cast<size_t>((g + e / 2 * 8) * 16 + k)] *
                    b[static_cast<size_t>(k * 8 + 2 * t + e % 2)];
      }
      EXPECT_EQ(d[e], expected);
    }
  });
}

TEST(CudaEmulationTest, FloatProductsAreThoseOfPlainLoops) {
  CheckFloatMma<false>();
  CheckFloatMma<true>();
}

TEST(CudaEmulationTest, ASplitNumberIsNearlyTheNumber) {
  for (const float x : {1.0f, -3.14159274f, 1234.567f, 1e-3f, 0.0f}) {
    const SplitPair f16 = Split<false>(x, -x);
    const SplitPair bf16 = Split<true>(x, -x);
    const float size = std::abs(x);
    EXPECT_NEAR(FloatOfHalf(LowHalf(f16.high)) + FloatOfHalf(LowHalf(f16.low)),
                x, size * 0x1p-22 + 0x1p-25);
    EXPECT_NEAR(
        FloatOfHalf(HighHalf(f16.high)) + FloatOfHalf(HighHalf(f16.low)), -x,
        size * 0x1p-22 + 0x1p-25);
    EXPECT_NEAR(
        FloatOfBfloat(LowHalf(bf16.high)) + FloatOfBfloat(LowHalf(bf16.low)), x,
        size * 0x1p-16);
  }
}

TEST(CudaEmulationDeathTest, ABarrierThatNotAllReachIsFatal) {
  EXPECT_DEATH(Emulate({1}, 64, 0,
                       [] {
                         if (ThreadIndex() != 7) __syncthreads();
                       }),
               "barrier");
}

TEST(CudaEmulationDeathTest, AWarpOperationOfSomeLanesIsFatal) {
  EXPECT_DEATH(Emulate({1}, 64, 0,
                       [] {
                         if (LaneIndex() < 16) __syncwarp();
                       }),
               "warp operation");
}

TEST(CudaEmulationDeathTest, DifferentWaitsNeverEnd) {
  EXPECT_DEATH(Emulate({1}, 64, 0,
                       [] {
                         if (ThreadIndex() % 2 == 0) {
                           __syncthreads();
                         } else {
                           __syncwarp();
                         }
                       }),
               "not every thread reaches");
}

TEST(CudaEmulationDeathTest, AThreadThatDoesNotWaitForKernelsBeforeIsFatal) {
  const auto kernel = [] {
    if (ThreadIndex() != 7) WaitForKernelsBefore();
  };
  EXPECT_DEATH(RunAfter([] {}, [&] { Emulate({1}, 64, 0, kernel); }),
               "did not wait");
}

TEST(CudaEmulationDeathTest, WhatADeviceCannotLaunchIsFatal) {
  EXPECT_DEATH(Emulate({1}, 64, kMostSharedBytes + 1, [] {}), "shared memory");
  EXPECT_DEATH(Emulate({1}, 48, 0, [] {}), "whole warps");
  EXPECT_DEATH(Emulate({1, 70'000}, 32, 0, [] {}), "limits");
}

}  // namespace
}  // namespace plimsoll::kernels::cuda_emulated
