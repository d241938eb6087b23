// The states of pages: free, used by slots, or remembered.
#include "worker/cache/page_book.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace plimsoll::worker {
namespace {

TEST(PageBookTest, ThePageThatWasFreedLastIsTakenNext) {
  PageBook pages(3);
  EXPECT_EQ(pages.n_free(), 3);
  EXPECT_EQ(pages.Take(), 0);
  EXPECT_EQ(pages.Take(), 1);
  EXPECT_TRUE(pages.RemoveUser(0));
  pages.Free(0);
  EXPECT_EQ(pages.NextFree(), 0);
  EXPECT_EQ(pages.Take(), 0);
  EXPECT_EQ(pages.Take(), 2);
  EXPECT_EQ(pages.n_free(), 0);
}

TEST(PageBookTest, APageIsUnusedOnceItsLastUserGivesItBack) {
  PageBook pages(1);
  const int32_t page = pages.Take();
  EXPECT_FALSE(pages.AddUser(page));
  EXPECT_FALSE(pages.RemoveUser(page));
  EXPECT_TRUE(pages.RemoveUser(page));
  EXPECT_TRUE(pages.IsUnused(page));
  EXPECT_EQ(pages.n_free(), 0) << "it may be remembered";
  EXPECT_TRUE(pages.AddUser(page));
  EXPECT_FALSE(pages.IsUnused(page));
}

TEST(PageBookTest, RandomUseAgreesWithAPlainStack) {
  std::mt19937 random(3);
  PageBook pages(20);
  std::vector<int32_t> free;
  for (int32_t page = 19; page >= 0; --page) free.push_back(page);
  std::vector<int32_t> taken;
  for (int round = 0; round < 20'000; ++round) {
    if (!free.empty() && random() % 2 == 0) {
      ASSERT_EQ(pages.NextFree(), free.back());
      ASSERT_EQ(pages.Take(), free.back());
      taken.push_back(free.back());
      free.pop_back();
    } else if (!taken.empty()) {
      const size_t at = random() % taken.size();
      ASSERT_TRUE(pages.RemoveUser(taken[at]));
      pages.Free(taken[at]);
      free.push_back(taken[at]);
      taken.erase(taken.begin() + static_cast<int64_t>(at));
    }
    ASSERT_EQ(pages.n_free(), std::ssize(free));
  }
}

}  // namespace
}  // namespace plimsoll::worker
