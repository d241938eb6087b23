#include "worker/text/tokenizer/byte_pairs.h"

#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

TEST(BytePairsTest, HasWhatWasAddedAndNothingElse) {
  BytePairs pairs;
  pairs.Add('\xff', '\0');
  pairs.Add('a', '\xfe');
  int n = 0;
  for (int left = 0; left < 256; ++left) {
    for (int right = 0; right < 256; ++right) {
      n += pairs.Has(static_cast<char>(left), static_cast<char>(right)) ? 1 : 0;
    }
  }
  EXPECT_EQ(n, 2);
  EXPECT_TRUE(pairs.Has('\xff', '\0'));
  EXPECT_TRUE(pairs.Has('a', '\xfe'));
}

}  // namespace
}  // namespace plimsoll::worker
