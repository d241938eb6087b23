#include "worker/text/tokenizer/token_list.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::worker {
namespace {

// Entries that share as much as `shared` says.
TokenList Sharing(const std::vector<size_t>& shared) {
  TokenList list;
  for (size_t i = 0; i < shared.size(); ++i) {
    list.Add(static_cast<int32_t>(i), shared[i], "x");
  }
  list.Finish();
  return list;
}

TEST(TokenListTest, EntriesAreAsTheyWereAdded) {
  TokenList list;
  list.Reserve(3);
  list.Add(7, 0, "ab");
  list.Add(9, 2, "");
  list.Add(8, 1, "cde");
  list.Finish();
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list.Id(1), 9);
  EXPECT_EQ(list.At(1).bytes, "");
  EXPECT_EQ(list.Shared(2), 1u);
  EXPECT_EQ(list.At(2).id, 8);
  EXPECT_EQ(list.At(2).n_shared, 1u);
  EXPECT_EQ(list.At(2).bytes, "cde");
}

TEST(TokenListTest, SkippingIsAsIfOneByOne) {
  const std::vector<size_t> shared = {0, 1, 2, 3, 2, 2, 1, 4, 3, 0, 0, 2};
  const TokenList list = Sharing(shared);
  for (int64_t i = 0; i <= list.size(); ++i) {
    for (uint32_t n_shared = 0; n_shared < 5; ++n_shared) {
      int64_t expected = i;
      while (expected < list.size() && list.Shared(expected) > n_shared) {
        ++expected;
      }
      EXPECT_EQ(list.SkipTo(i, n_shared), expected) << i << " " << n_shared;
    }
  }
}

// A step has 16 bits.
TEST(TokenListTest, SkipsMayBeLongerThanAStep) {
  for (const size_t n : {65'534u, 65'535u, 65'536u, 200'000u}) {
    std::vector<size_t> shared(n, 2);
    shared.insert(shared.begin(), 1);
    shared.push_back(0);
    const TokenList list = Sharing(shared);
    const auto last = static_cast<int64_t>(n) + 1;
    EXPECT_EQ(list.SkipTo(0, 0), last);
    EXPECT_EQ(list.SkipTo(1, 1), last);
    EXPECT_EQ(list.SkipTo(1, 2), 1);
  }
}

}  // namespace
}  // namespace plimsoll::worker
