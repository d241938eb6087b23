// The index of shared pages against a plain list of what was inserted.
#include "worker/cache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Ids = std::vector<int32_t>;

bool Any(int32_t) { return true; }

Ids Forgotten(PrefixCache& cache, int32_t page) {
  Ids pages;
  cache.Forget(page, pages);
  return pages;
}

TEST(PrefixCacheTest, FindsTheLongestBeginningInWholePages) {
  PrefixCache cache(/*page_tokens=*/2, /*n_snapshots=*/0);
  EXPECT_THAT(cache.Find("", Ids{1, 2}).pages, IsEmpty());
  (void)cache.Insert("", Ids{1, 2, 3, 4, 5}, Ids{10, 11}, Any);
  EXPECT_THAT(cache.Find("", Ids{1, 2, 3, 4, 5, 6}).pages, ElementsAre(10, 11));
  EXPECT_THAT(cache.Find("", Ids{1, 2, 3, 9}).pages, ElementsAre(10));
  EXPECT_THAT(cache.Find("", Ids{1, 2, 3}).pages, ElementsAre(10));
  EXPECT_THAT(cache.Find("", Ids{3, 4}).pages, IsEmpty())
      << "the same tokens elsewhere are other keys";
  EXPECT_THAT(cache.Find("", Ids{}).pages, IsEmpty());
  EXPECT_EQ(cache.size(), 2);
}

TEST(PrefixCacheTest, OwnersShareNothing) {
  PrefixCache cache(2, 0);
  (void)cache.Insert("one", Ids{1, 2}, Ids{10}, Any);
  EXPECT_THAT(cache.Find("two", Ids{1, 2}).pages, IsEmpty());
  (void)cache.Insert("two", Ids{1, 2}, Ids{11}, Any);
  EXPECT_THAT(cache.Find("one", Ids{1, 2}).pages, ElementsAre(10));
  EXPECT_THAT(cache.Find("two", Ids{1, 2}).pages, ElementsAre(11));
}

TEST(PrefixCacheTest, APageInUseStaysAndEndsWhatIsRemembered) {
  PrefixCache cache(2, 0);
  (void)cache.Insert("", Ids{1, 2}, Ids{10}, Any);
  const Ids tokens = {1, 2, 3, 4};
  EXPECT_THAT(cache.Insert("", tokens, Ids{20, 21},
                           [](int32_t page) { return page != 10; }),
              IsEmpty());
  EXPECT_THAT(cache.Find("", tokens).pages, ElementsAre(10));
  EXPECT_THAT(cache.Insert("", tokens, Ids{20, 21}, Any), ElementsAre(10));
  EXPECT_THAT(cache.Find("", tokens).pages, ElementsAre(20, 21));
  EXPECT_FALSE(cache.Has(10));
}

TEST(PrefixCacheTest, TheOldestWithoutChildrenGoesFirst) {
  PrefixCache cache(1, 0);
  (void)cache.Insert("", Ids{1, 2, 3}, Ids{10, 11, 12}, Any);
  (void)cache.Insert("", Ids{1, 7}, Ids{10, 13}, Any);
  (void)cache.Insert("", Ids{8}, Ids{14}, Any);
  (void)cache.Find("", Ids{1, 2, 3});
  EXPECT_EQ(cache.ForgetOldest(Any), 13);
  EXPECT_EQ(cache.ForgetOldest([](int32_t page) { return page != 14; }), 12);
  EXPECT_EQ(cache.ForgetOldest(Any), 14);
  EXPECT_EQ(cache.ForgetOldest(Any), 11);
  EXPECT_EQ(cache.ForgetOldest(Any), 10);
  EXPECT_EQ(cache.ForgetOldest(Any), std::nullopt);
  EXPECT_EQ(cache.size(), 0);
}

TEST(PrefixCacheTest, ForgettingAPageForgetsWhatFollows) {
  PrefixCache cache(1, 0);
  (void)cache.Insert("", Ids{1, 2, 3}, Ids{10, 11, 12}, Any);
  (void)cache.Insert("", Ids{1, 2, 4}, Ids{10, 11, 13}, Any);
  EXPECT_THAT(Forgotten(cache, 11), UnorderedElementsAre(11, 12, 13));
  EXPECT_THAT(Forgotten(cache, 11), IsEmpty());
  EXPECT_THAT(cache.Find("", Ids{1, 2}).pages, ElementsAre(10));
}

TEST(PrefixCacheTest, AChainAsLongAsAContextIsForgottenWithoutRecursion) {
  PrefixCache cache(1, 0);
  const Ids tokens(200'000, 1);
  Ids pages(tokens.size());
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
  (void)cache.Insert("", tokens, pages, Any);
  EXPECT_EQ(Forgotten(cache, 0).size(), tokens.size());
  (void)cache.Insert("", tokens, pages, Any);  // and the end of the cache, too
}

TEST(PrefixCacheTest, RingsAreOfTheLongestBeginningAndGoByAge) {
  PrefixCache cache(1, /*n_snapshots=*/2);
  (void)cache.Insert("", Ids{1, 2, 3}, Ids{10, 11, 12}, Any);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{9}), std::nullopt) << "not there";
  EXPECT_EQ(cache.KeepSnapshot("", Ids{}), std::nullopt);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1}), 0);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1}), std::nullopt) << "kept already";
  PrefixCache::Hit hit = cache.Find("", Ids{1, 2, 3});
  EXPECT_EQ(hit.pages.size(), 3u);
  EXPECT_EQ(hit.n_with_snapshot, 1);
  EXPECT_EQ(hit.snapshot, 0);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1, 2}), 1);
  // The third takes that of the one used longest ago.
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1, 2, 3}), 0);
  hit = cache.Find("", Ids{1, 2, 3});
  EXPECT_EQ(hit.n_with_snapshot, 3);
  EXPECT_EQ(cache.Find("", Ids{1}).snapshot, std::nullopt);
  EXPECT_EQ(cache.Find("", Ids{1, 2}).snapshot, 1);
  // With its page a snapshot is free again.
  Forgotten(cache, 12);
  (void)cache.Insert("", Ids{5}, Ids{15}, Any);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{5}), 0);
}

TEST(PrefixCacheTest, RandomUseAgreesWithAPlainList) {
  std::mt19937 random(3);
  const auto draw = [&](uint32_t n) {
    return static_cast<int32_t>(random() % n);
  };
  PrefixCache cache(1, 0);
  std::map<Ids, int32_t> pages;  // pages of every beginning
  int32_t next_page = 0;
  for (int round = 0; round < 20'000; ++round) {
    Ids tokens(static_cast<size_t>(1 + draw(6)));
    for (int32_t& id : tokens) id = draw(3);
    if (draw(4) == 0 && !pages.empty()) {
      auto gone = pages.begin();
      std::advance(gone, draw(static_cast<uint32_t>(pages.size())));
      const Ids beginning = gone->first;
      const int32_t page = gone->second;
      const std::vector<int32_t> forgotten = Forgotten(cache, page);
      std::vector<int32_t> wanted;
      std::erase_if(pages, [&](const auto& entry) {
        const bool follows =
            entry.first.size() >= beginning.size() &&
            std::equal(beginning.begin(), beginning.end(), entry.first.begin());
        if (follows) wanted.push_back(entry.second);
        return follows;
      });
      EXPECT_THAT(forgotten, ::testing::UnorderedElementsAreArray(wanted));
      continue;
    }
    Ids found;
    for (size_t n = 1; n <= tokens.size(); ++n) {
      const auto at = pages.find(
          Ids(tokens.begin(), tokens.begin() + static_cast<int64_t>(n)));
      if (at == pages.end()) break;
      found.push_back(at->second);
    }
    ASSERT_EQ(cache.Find("", tokens).pages, found);
    Ids inserted = found;
    for (size_t n = found.size() + 1; n <= tokens.size(); ++n) {
      inserted.push_back(next_page);
      pages[Ids(tokens.begin(), tokens.begin() + static_cast<int64_t>(n))] =
          next_page++;
    }
    (void)cache.Insert("", tokens, inserted, Any);
    ASSERT_EQ(cache.size(), static_cast<int64_t>(pages.size()));
  }
}

}  // namespace
}  // namespace plimsoll::worker
