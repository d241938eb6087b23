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

using enum PrefixCache::SnapshotOf;

using Ids = std::vector<int32_t>;

// Inserts pages that no slot uses.
Ids Insert(PrefixCache& cache, const std::string& owner, const Ids& tokens,
           const Ids& pages) {
  const Ids replaced = cache.Insert(owner, tokens, pages);
  for (const int32_t page : pages) {
    if (cache.Has(page)) cache.MarkUnused(page);
  }
  return replaced;
}

Ids Forgotten(PrefixCache& cache, int32_t page) {
  Ids pages;
  cache.Forget(page, pages);
  return pages;
}

TEST(PrefixCacheTest, FindsTheLongestBeginningInWholePages) {
  PrefixCache cache(/*page_tokens=*/2, /*n_snapshots=*/0);
  EXPECT_THAT(cache.Find("", Ids{1, 2}).pages, IsEmpty());
  (void)Insert(cache, "", Ids{1, 2, 3, 4, 5}, Ids{10, 11});
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
  (void)Insert(cache, "one", Ids{1, 2}, Ids{10});
  EXPECT_THAT(cache.Find("two", Ids{1, 2}).pages, IsEmpty());
  (void)Insert(cache, "two", Ids{1, 2}, Ids{11});
  EXPECT_THAT(cache.Find("one", Ids{1, 2}).pages, ElementsAre(10));
  EXPECT_THAT(cache.Find("two", Ids{1, 2}).pages, ElementsAre(11));
}

TEST(PrefixCacheTest, APageInUseStaysAndEndsWhatIsRemembered) {
  PrefixCache cache(2, 0);
  (void)cache.Insert("", Ids{1, 2}, Ids{10});
  const Ids tokens = {1, 2, 3, 4};
  EXPECT_THAT(cache.Insert("", tokens, Ids{20, 21}), IsEmpty());
  EXPECT_THAT(cache.Find("", tokens).pages, ElementsAre(10));
  cache.MarkUnused(10);
  EXPECT_THAT(cache.Insert("", tokens, Ids{20, 21}), ElementsAre(10));
  EXPECT_THAT(cache.Find("", tokens).pages, ElementsAre(20, 21));
  EXPECT_FALSE(cache.Has(10));
  EXPECT_EQ(cache.n_unused(), 0);
}

TEST(PrefixCacheTest, TheOldestWithoutChildrenGoesFirst) {
  PrefixCache cache(1, 0);
  (void)Insert(cache, "", Ids{1, 2, 3}, Ids{10, 11, 12});
  (void)Insert(cache, "", Ids{1, 7}, Ids{10, 13});
  (void)Insert(cache, "", Ids{8}, Ids{14});
  (void)cache.Find("", Ids{1, 2, 3});
  EXPECT_EQ(cache.ForgetOldest("", 1), 13);
  cache.MarkUsed(14);
  EXPECT_EQ(cache.n_unused(), 3);
  EXPECT_EQ(cache.ForgetOldest("", 1), 12);
  cache.MarkUnused(14);
  EXPECT_EQ(cache.ForgetOldest("", 1), 14);
  EXPECT_EQ(cache.ForgetOldest("", 1), 11);
  EXPECT_EQ(cache.ForgetOldest("", 1), 10);
  EXPECT_EQ(cache.ForgetOldest("", 1), std::nullopt);
  EXPECT_EQ(cache.size(), 0);
  EXPECT_EQ(cache.n_unused(), 0);
}

TEST(PrefixCacheTest, AFloodOfOneOwnerPushesOutItsOwnPages) {
  PrefixCache cache(1, 0);
  (void)Insert(cache, "b", Ids{1, 2}, Ids{0, 1});
  // The flood has the younger pages, and room for six.
  int32_t page = 2;
  for (int32_t id = 0; id < 1'000; ++id) {
    if (cache.size() == 8) {
      const auto gone = cache.ForgetFor("a", 1);
      ASSERT_TRUE(gone.has_value());
      ASSERT_GE(*gone, 2) << "a page of the other owner went";
    }
    (void)Insert(cache, "a", Ids{id}, Ids{page++});
  }
  EXPECT_THAT(cache.Find("b", Ids{1, 2}).pages, ElementsAre(0, 1));
  // A step that must have a page takes it from whoever has most, too.
  for (int n = 6; n > 2; --n) EXPECT_GE(*cache.ForgetOldest("b", 1), 2);
  EXPECT_THAT(cache.Find("b", Ids{1, 2}).pages, ElementsAre(0, 1));
  // With as many pages the owner that asks would have most.
  EXPECT_EQ(cache.ForgetOldest("b", 1), 1);
  EXPECT_GE(*cache.ForgetOldest("a", 1), 2);
  // What slots of it have counts as well.
  (void)Insert(cache, "a", Ids{1, 2}, Ids{page, page + 1});
  EXPECT_EQ(cache.ForgetOldest("b", 3), 0);
}

TEST(PrefixCacheTest, OwnersWithAsManyPagesLoseTheOldestFirst) {
  PrefixCache cache(1, 0);
  (void)Insert(cache, "a", Ids{1}, Ids{10});
  (void)Insert(cache, "b", Ids{1}, Ids{20});
  (void)Insert(cache, "c", Ids{1}, Ids{30});
  (void)cache.Find("a", Ids{1});
  EXPECT_EQ(cache.ForgetOldest("d", 1), 20);
  EXPECT_EQ(cache.ForgetOldest("d", 1), 30);
  EXPECT_EQ(cache.ForgetOldest("d", 1), 10);
}

TEST(PrefixCacheTest, ALongPromptTakesNothingFromThoseWhoWouldHaveLess) {
  PrefixCache cache(1, 0);
  (void)Insert(cache, "b", Ids{1, 2, 3, 4}, Ids{0, 1, 2, 3});
  EXPECT_EQ(cache.ForgetFor("a", 5), std::nullopt);
  EXPECT_EQ(cache.ForgetFor("a", 4), 3);
  EXPECT_EQ(cache.ForgetFor("a", 4), std::nullopt);
  // In use, they count, and none of them goes.
  for (const int32_t page : {0, 1, 2}) cache.MarkUsed(page);
  EXPECT_EQ(cache.ForgetFor("a", 1), std::nullopt);
  EXPECT_EQ(cache.ForgetOldest("a", 1), std::nullopt);
}

TEST(PrefixCacheTest, NothingStaysOfOwnersWithoutPages) {
  PrefixCache cache(1, /*n_snapshots=*/2);
  for (int32_t i = 0; i < 100'000; ++i) {
    const std::string owner = std::to_string(i);
    EXPECT_THAT(cache.Find(owner, Ids{1}).pages, IsEmpty());
    (void)cache.Insert(owner, Ids{}, Ids{});
    (void)Insert(cache, owner, Ids{1, 2}, Ids{2 * i, 2 * i + 1});
    EXPECT_TRUE(cache.KeepSnapshot(owner, Ids{1}, kPrompt).has_value());
    while (cache.size() > 20) (void)cache.ForgetOldest("", 1);
    ASSERT_LE(cache.n_owners(), 20);
  }
  while (cache.ForgetOldest("", 1)) {
  }
  EXPECT_EQ(cache.n_owners(), 0);
}

TEST(PrefixCacheTest, ForgettingAPageForgetsWhatFollows) {
  PrefixCache cache(1, 0);
  (void)Insert(cache, "", Ids{1, 2, 3}, Ids{10, 11, 12});
  (void)Insert(cache, "", Ids{1, 2, 4}, Ids{10, 11, 13});
  EXPECT_THAT(Forgotten(cache, 11), UnorderedElementsAre(11, 12, 13));
  EXPECT_THAT(Forgotten(cache, 11), IsEmpty());
  EXPECT_THAT(cache.Find("", Ids{1, 2}).pages, ElementsAre(10));
}

TEST(PrefixCacheTest, AChainAsLongAsAContextIsForgottenWithoutRecursion) {
  PrefixCache cache(1, 0);
  const Ids tokens(200'000, 1);
  Ids pages(tokens.size());
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
  (void)Insert(cache, "", tokens, pages);
  EXPECT_EQ(Forgotten(cache, 0).size(), tokens.size());
  (void)Insert(cache, "", tokens, pages);  // and the end of the cache, too
}

TEST(PrefixCacheTest, RingsAreOfTheLongestBeginningAndGoByAge) {
  PrefixCache cache(1, /*n_snapshots=*/2);
  (void)Insert(cache, "", Ids{1, 2, 3}, Ids{10, 11, 12});
  EXPECT_EQ(cache.KeepSnapshot("", Ids{9}, kPrompt), std::nullopt)
      << "not there";
  EXPECT_EQ(cache.KeepSnapshot("", Ids{}, kPrompt), std::nullopt);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1}, kPrompt), 0);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1}, kPrompt), std::nullopt)
      << "kept already";
  PrefixCache::Hit hit = cache.Find("", Ids{1, 2, 3});
  EXPECT_EQ(hit.pages.size(), 3u);
  EXPECT_EQ(hit.n_with_snapshot, 1);
  EXPECT_EQ(hit.snapshot, 0);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1, 2}, kPrompt), 1);
  // The third takes that of the one used longest ago.
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1, 2, 3}, kPrompt), 0);
  hit = cache.Find("", Ids{1, 2, 3});
  EXPECT_EQ(hit.n_with_snapshot, 3);
  EXPECT_EQ(cache.Find("", Ids{1}).snapshot, std::nullopt);
  EXPECT_EQ(cache.Find("", Ids{1, 2}).snapshot, 1);
  // With its page a snapshot is free again.
  Forgotten(cache, 12);
  (void)Insert(cache, "", Ids{5}, Ids{15});
  EXPECT_EQ(cache.KeepSnapshot("", Ids{5}, kPrompt), 0);
}

TEST(PrefixCacheTest, AFloodOfOneOwnerPushesOutItsOwnSnapshots) {
  PrefixCache cache(1, /*n_snapshots=*/3);
  (void)Insert(cache, "b", Ids{1}, Ids{0});
  const std::optional<int64_t> kept = cache.KeepSnapshot("b", Ids{1}, kPrompt);
  ASSERT_TRUE(kept.has_value());
  for (int32_t id = 1; id < 100; ++id) {
    (void)Insert(cache, "a", Ids{id}, Ids{id});
    const auto snapshot = cache.KeepSnapshot("a", Ids{id}, kPrompt);
    ASSERT_TRUE(snapshot.has_value());
    ASSERT_NE(snapshot, kept);
  }
  EXPECT_EQ(cache.Find("b", Ids{1}).snapshot, kept);
  // The other one gets as many as the flood has, and no more.
  (void)Insert(cache, "b", Ids{1, 2, 3}, Ids{0, 1'000, 1'001});
  const auto second = cache.KeepSnapshot("b", Ids{1, 2}, kPrompt);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(cache.Find("b", Ids{1}).snapshot, kept);
  EXPECT_EQ(cache.KeepSnapshot("b", Ids{1, 2, 3}, kPrompt), second);
  EXPECT_TRUE(cache.Find("a", Ids{99}).snapshot.has_value());
}

TEST(PrefixCacheTest, AReplysSnapshotMovesOnFromPageToPage) {
  PrefixCache cache(1, /*n_snapshots=*/4);
  (void)Insert(cache, "", Ids{1, 2, 3, 4}, Ids{10, 11, 12, 13});
  const auto prompt = cache.KeepSnapshot("", Ids{1}, kPrompt);
  const auto reply = cache.KeepSnapshot("", Ids{1, 2}, kReply);
  ASSERT_TRUE(reply.has_value());
  EXPECT_NE(reply, prompt) << "a prompt's stays";
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1, 2, 3}, kReply), reply);
  EXPECT_EQ(cache.Find("", Ids{1, 2}).snapshot, prompt);
  EXPECT_EQ(cache.Find("", Ids{1, 2, 3}).snapshot, reply);
}

TEST(PrefixCacheTest, RepliesHaveHalfOfTheSnapshots) {
  PrefixCache cache(1, /*n_snapshots=*/4);
  for (int32_t id = 0; id < 8; ++id) {
    (void)Insert(cache, "", Ids{id}, Ids{10 + id});
  }
  // Prompts take all, if nobody else wants any.
  for (int32_t id = 0; id < 4; ++id) {
    ASSERT_TRUE(cache.KeepSnapshot("", Ids{id}, kPrompt).has_value());
  }
  // The first two replies take those of the prompts that were used longest ago,
  // and the third one that of the first.
  const auto first = cache.KeepSnapshot("", Ids{4}, kReply);
  ASSERT_TRUE(cache.KeepSnapshot("", Ids{5}, kReply).has_value());
  EXPECT_EQ(cache.KeepSnapshot("", Ids{6}, kReply), first);
  for (int32_t id = 0; id < 8; ++id) {
    const bool is_kept = id == 2 || id == 3 || id == 5 || id == 6;
    EXPECT_EQ(cache.Look("", Ids{id}).snapshot.has_value(), is_kept) << id;
  }
  // A prompt takes that of a prompt.
  ASSERT_TRUE(cache.KeepSnapshot("", Ids{7}, kPrompt).has_value());
  EXPECT_EQ(cache.Look("", Ids{2}).snapshot, std::nullopt);
}

TEST(PrefixCacheTest, OneSnapshotIsForPrompts) {
  PrefixCache cache(1, /*n_snapshots=*/1);
  (void)Insert(cache, "", Ids{1}, Ids{10});
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1}, kReply), std::nullopt);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1}, kPrompt), 0);
}

TEST(PrefixCacheTest, ASnapshotThatIsForgottenIsFree) {
  PrefixCache cache(1, /*n_snapshots=*/1);
  (void)Insert(cache, "", Ids{1, 2}, Ids{10, 11});
  cache.ForgetSnapshot("", Ids{1});
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1}, kPrompt), 0);
  cache.ForgetSnapshot("", Ids{1});
  cache.ForgetSnapshot("x", Ids{1});
  EXPECT_EQ(cache.Find("", Ids{1, 2}).snapshot, std::nullopt);
  EXPECT_EQ(cache.KeepSnapshot("", Ids{1, 2}, kPrompt), 0);
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
    (void)Insert(cache, "", tokens, inserted);
    ASSERT_EQ(cache.size(), static_cast<int64_t>(pages.size()));
  }
}

}  // namespace
}  // namespace plimsoll::worker
