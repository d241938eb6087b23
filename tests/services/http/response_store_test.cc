#include "services/http/response_store.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

class ResponseStoreTest : public ::testing::Test {
 protected:
  // A response that takes `bytes` bytes.
  static ResponseTexts Sized(int64_t bytes) {
    return {
        std::string(static_cast<size_t>(bytes - StoredTurn::kFrameBytes), 'x'),
        "", ""};
  }
  void Keep(const std::string& id, ResponseTexts texts) {
    store_.Keep("t", id, std::move(texts), nullptr);
  }
  void KeepAfter(const std::string& previous, const std::string& id,
                 ResponseTexts texts) {
    store_.Keep("t", id, std::move(texts), store_.Find("t", previous));
  }
  bool Has(const std::string& id) { return store_.Find("t", id) != nullptr; }

  ResponseStore store_;
};

TEST_F(ResponseStoreTest, FindsWhatWasKept) {
  Keep("a", {"in", "out", "rest"});
  const StoredTurn::Ptr turn = store_.Find("t", "a");
  ASSERT_NE(turn, nullptr);
  EXPECT_EQ(turn->texts().input, "in");
  EXPECT_EQ(turn->texts().output, "out");
  EXPECT_EQ(turn->texts().rest, "rest");
  EXPECT_EQ(turn->previous(), nullptr);
  EXPECT_EQ(store_.bytes(), StoredTurn::kFrameBytes + 9);
  EXPECT_FALSE(Has("b"));
}

TEST_F(ResponseStoreTest, OtherTenantsFindNothing) {
  Keep("a", {});
  EXPECT_EQ(store_.Find("u", "a"), nullptr);
  EXPECT_EQ(store_.Find("", "a"), nullptr);
  EXPECT_FALSE(store_.Remove("u", "a"));
  EXPECT_TRUE(Has("a"));
}

TEST_F(ResponseStoreTest, WhatIsRemovedIsGone) {
  Keep("a", {});
  EXPECT_TRUE(store_.Remove("t", "a"));
  EXPECT_FALSE(store_.Remove("t", "a"));
  EXPECT_FALSE(Has("a"));
  EXPECT_EQ(store_.bytes(), 0);
}

TEST_F(ResponseStoreTest, KeepsSoManyResponses) {
  for (size_t i = 0; i < ResponseStore::kMaxResponses; ++i) {
    Keep(absl::StrCat(i), {});
  }
  EXPECT_TRUE(Has("0")) << "at the limit; it is now the one that was used last";
  Keep("one more", {});
  EXPECT_TRUE(Has("0"));
  EXPECT_FALSE(Has("1"));
  EXPECT_TRUE(Has("2"));
}

TEST_F(ResponseStoreTest, KeepsSoManyBytes) {
  Keep("a", Sized(1'000'000));
  Keep("b", Sized(ResponseStore::kMaxBytes - 1'000'000));
  EXPECT_EQ(store_.bytes(), ResponseStore::kMaxBytes);
  EXPECT_TRUE(Has("b"));
  EXPECT_TRUE(Has("a"));
  Keep("c", Sized(StoredTurn::kFrameBytes));
  EXPECT_FALSE(Has("b")) << "used least recently";
  EXPECT_TRUE(Has("a"));
  EXPECT_TRUE(Has("c"));
  EXPECT_EQ(store_.bytes(), 1'000'000 + StoredTurn::kFrameBytes);
}

TEST_F(ResponseStoreTest, AResponseThatIsTooLargeLeavesAtOnce) {
  Keep("a", Sized(ResponseStore::kMaxBytes));
  EXPECT_TRUE(Has("a"));
  Keep("b", Sized(ResponseStore::kMaxBytes + 1));
  EXPECT_FALSE(Has("a"));
  EXPECT_FALSE(Has("b"));
  EXPECT_EQ(store_.bytes(), 0);
}

TEST_F(ResponseStoreTest, TurnsStayWithWhatGoesOnFromThem) {
  Keep("a", {"first", "", ""});
  KeepAfter("a", "b", {"second", "", ""});
  KeepAfter("a", "c", {"other", "", ""});
  EXPECT_EQ(store_.bytes(), 3 * StoredTurn::kFrameBytes + 16) << "once each";
  EXPECT_TRUE(store_.Remove("t", "a"));
  for (const char* id : {"b", "c"}) {
    const StoredTurn::Ptr turn = store_.Find("t", id);
    ASSERT_NE(turn->previous(), nullptr);
    EXPECT_EQ(turn->previous()->texts().input, "first");
  }
  EXPECT_TRUE(store_.Remove("t", "b"));
  EXPECT_TRUE(store_.Remove("t", "c"));
  EXPECT_EQ(store_.bytes(), 0);
}

TEST_F(ResponseStoreTest, TheNewestOfAConversationLeavesLast) {
  Keep("a", Sized(ResponseStore::kMaxBytes / 2));
  KeepAfter("a", "b", Sized(ResponseStore::kMaxBytes / 4));
  Keep("c", Sized(ResponseStore::kMaxBytes / 2));
  EXPECT_FALSE(Has("a"));
  EXPECT_FALSE(Has("b")) << "without its first turn it would be worth nothing";
  EXPECT_TRUE(Has("c"));
  EXPECT_EQ(store_.bytes(), ResponseStore::kMaxBytes / 2);
}

TEST_F(ResponseStoreTest, ALongConversationEndsWithoutDeepCalls) {
  std::string last = "0";
  Keep(last, {});
  for (int i = 1; i < 20'000; ++i) {
    const std::string next = absl::StrCat(i);
    KeepAfter(last, next, {});
    store_.Remove("t", last);
    last = next;
  }
  EXPECT_EQ(store_.bytes(), 20'000 * StoredTurn::kFrameBytes);
  EXPECT_TRUE(store_.Remove("t", last));
  EXPECT_EQ(store_.bytes(), 0);
}

TEST_F(ResponseStoreTest, ACallMayHoldATurnThatHasLeft) {
  StoredTurn::Ptr held;
  {
    ResponseStore store;
    store.Keep("t", "a", {"in", "", ""}, nullptr);
    held = store.Find("t", "a");
  }
  EXPECT_EQ(held->texts().input, "in");
}

}  // namespace
}  // namespace plimsoll::services
