// Every word is read, whatever the threads.
#include "kernels/cpu/read_bandwidth.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace plimsoll::kernels {
namespace {

TEST(ReadAllTest, ReadsEveryWordOnce) {
  std::mt19937_64 random(1);
  for (const size_t n : {0u, 1u, 15u, 16u, 17u, 8'191u, 8'193u, 100'000u}) {
    std::vector<uint64_t> words(n);
    uint64_t wanted = 0;
    for (uint64_t& word : words) {
      word = random();
      wanted ^= word;
    }
    for (const int n_threads : {1, 2, 5}) {
      ThreadPool pool(n_threads, WorkerCpus::kAny);
      EXPECT_EQ(ReadAll(words, pool), wanted) << n;
    }
  }
}

}  // namespace
}  // namespace plimsoll::kernels
