#include "services/gateway/worker_book.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

WorkerBook::Facts Ready(const std::set<std::string>& loaded) {
  return {.is_ready = true, .models = {"m", "other"}, .loaded = loaded};
}

class WorkerBookTest : public ::testing::Test {
 protected:
  void SetUp() override { Have({"a", "b", "c"}); }

  void Have(const std::vector<std::string>& ids) {
    book_.SetWorkers(ids);
    for (const std::string& id : ids) book_.SetFacts(id, Ready({"m"}));
  }
  // The worker of a request, or "" without one.
  std::string Enter(const WorkerWish& wish) { return EnterAt(kNow, wish); }
  std::string EnterAt(absl::Time now, const WorkerWish& wish) {
    const auto id = book_.Enter(wish, now);
    return id.ok() ? *id : "";
  }
  std::string EnterKey(const std::string& key, int64_t bytes) {
    return Enter({.model = "m", .key = key, .bytes = bytes});
  }
  // A request that ends at once.
  std::string Visit(const std::string& key) {
    const std::string id = EnterKey(key, /*bytes=*/0);
    book_.Release(id, 0, WorkerEnd::kAnswered, kNow);
    return id;
  }
  // Has `id` get requests of so many bytes.
  void Load(const std::string& id, int64_t bytes) {
    std::set<std::string> others;
    for (const auto& [other, worker] : book_.workers()) {
      if (other != id) others.insert(other);
    }
    bytes -= WorkerBook::kRequestBytes;
    ASSERT_EQ(Enter({.model = "m", .bytes = bytes, .tried = others}), id);
  }

  WorkerBook book_;
};

TEST_F(WorkerBookTest, RequestsWithoutAKeyGoWhereTheLeastIsToDo) {
  std::set<std::string> got;
  for (int i = 0; i < 3; ++i) got.insert(Enter({.model = "m"}));
  EXPECT_EQ(got.size(), 3U);
  book_.Release("b", 0, WorkerEnd::kAnswered, kNow);
  EXPECT_EQ(Enter({.model = "m"}), "b");
}

TEST_F(WorkerBookTest, EqualWorkersTakeTurns) {
  std::map<std::string, int> n;
  for (int i = 0; i < 9; ++i) ++n[Visit("")];
  for (const auto& [id, count] : n) EXPECT_EQ(count, 3) << id;
}

TEST_F(WorkerBookTest, AKeyKeepsItsWorkerAndKeysAreSpread) {
  std::map<std::string, int> n;
  for (int i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("session ", i);
    const std::string id = Visit(key);
    EXPECT_EQ(Visit(key), id);
    ++n[id];
  }
  ASSERT_EQ(n.size(), 3U);
  for (const auto& [id, count] : n) EXPECT_GT(count, 60) << id;
}

TEST_F(WorkerBookTest, TwoBooksSendAKeyToTheSameWorker) {
  WorkerBook other;
  other.SetWorkers({"c", "a", "b"});
  for (const char* id : {"a", "b", "c"}) other.SetFacts(id, Ready({"m"}));
  for (int i = 0; i < 50; ++i) {
    const std::string key = absl::StrCat("k", i);
    EXPECT_EQ(*other.Enter({.model = "m", .key = key}, kNow), Visit(key));
    other.Release(Visit(key), 0, WorkerEnd::kAnswered, kNow);
  }
  // It is written down here, since another build has to give the same.
  EXPECT_EQ(KeyScore("key", "127.0.0.1:7071"), 0x35ab782637b019a0U);
}

TEST_F(WorkerBookTest, OnlyTheKeysOfAWorkerThatLeavesMove) {
  std::map<std::string, std::string> before;
  for (int i = 0; i < 100; ++i) {
    const std::string key = absl::StrCat("k", i);
    before[key] = Visit(key);
  }
  Have({"a", "c"});
  for (const auto& [key, id] : before) {
    if (id == "b") {
      EXPECT_NE(Visit(key), "b");
    } else {
      EXPECT_EQ(Visit(key), id);
    }
  }
}

TEST_F(WorkerBookTest, AKeyGivesWayBeyondTheWorkersShare) {
  Have({"a", "b"});
  const std::string home = Visit("k");
  const std::string other = home == "a" ? "b" : "a";
  // 1.25 times the mean of 100,000 and 60,000 bytes is 100,000.
  Load(home, 100'000);
  Load(other, 60'000);
  EXPECT_EQ(Visit("k"), home);
  EXPECT_EQ(book_.n_given_way(), 0);
  Load(home, WorkerBook::kRequestBytes);  // the other one's share stays
  EXPECT_EQ(Visit("k"), other);
  EXPECT_EQ(book_.n_given_way(), 1);
}

TEST_F(WorkerBookTest, AKeyDoesNotGiveWayForAFewBytes) {
  const std::string home = Visit("k");
  Load(home, WorkerBook::kFreeBytes);
  EXPECT_EQ(Visit("k"), home);
  Load(home, WorkerBook::kRequestBytes);
  EXPECT_NE(Visit("k"), home);
}

TEST_F(WorkerBookTest, ALargeRequestKeepsItsWorkerWhereNothingRuns) {
  const std::string home = Visit("k");
  EXPECT_EQ(EnterKey("k", 2 << 20), home);
}

TEST_F(WorkerBookTest, WorkersThatAreNotReadyOrWereTriedAreOut) {
  book_.SetFacts("a", {.is_ready = false, .models = {"m"}, .loaded = {"m"}});
  EXPECT_EQ(Enter({.model = "m", .tried = {"b"}}), "c");
  const auto none = book_.Enter({.model = "m", .tried = {"b", "c"}}, kNow);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(DetailsOf(none.status()).retry_after.has_value());
  EXPECT_EQ(Enter({.model = "unknown"}), "");
  EXPECT_TRUE(book_.has_ready());
  book_.SetWorkers({"a"});
  EXPECT_FALSE(book_.has_ready());
}

TEST_F(WorkerBookTest, WorkersThatHaveLoadedTheModelGoFirst) {
  book_.SetFacts("a", Ready({"other"}));
  book_.SetFacts("b", Ready({}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Enter({.model = "m"}), "c");
  EXPECT_EQ(Enter({.model = "other"}), "a");
  EXPECT_NE(Enter({.model = "m", .tried = {"c"}}), "");  // it loads the model
}

TEST_F(WorkerBookTest, AWorkerThatWasGoneGetsNothingForAWhile) {
  const std::string home = Visit("k");
  EXPECT_EQ(EnterKey("k", /*bytes=*/0), home);
  book_.Release(home, 0, WorkerEnd::kGone, kNow);
  EXPECT_NE(Visit("k"), home);
  const absl::Time back = kNow + WorkerBook::kEjectTime;
  const absl::Duration instant = absl::Nanoseconds(1);
  EXPECT_NE(EnterAt(back - instant, {.model = "m", .key = "k"}), home);
  EXPECT_EQ(EnterAt(back, {.model = "m", .key = "k"}), home);
  EXPECT_EQ(book_.workers().at(home).n_gone, 1);
}

TEST_F(WorkerBookTest, EachFurtherTimeTakesTwiceAsLongUpToTheMost) {
  Have({"a", "b"});
  absl::Time now = kNow;
  absl::Duration expected = WorkerBook::kEjectTime;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(EnterAt(now, {.model = "m", .tried = {"b"}}), "a");
    book_.Release("a", 0, WorkerEnd::kGone, now);
    EXPECT_EQ(book_.workers().at("a").ejected_until, now + expected);
    now += expected;
    expected = std::min(2 * expected, WorkerBook::kMaxEjectTime);
  }
  EnterAt(now, {.model = "m", .tried = {"b"}});
  book_.Release("a", 0, WorkerEnd::kAnswered, now);
  EnterAt(now, {.model = "m", .tried = {"b"}});
  book_.Release("a", 0, WorkerEnd::kGone, now);
  EXPECT_EQ(book_.workers().at("a").ejected_until,
            now + WorkerBook::kEjectTime);
}

TEST_F(WorkerBookTest, RequestsThatEndTogetherTellOfOneFailure) {
  for (int i = 0; i < 5; ++i) Enter({.model = "m", .tried = {"b", "c"}});
  for (int i = 0; i < 5; ++i) book_.Release("a", 0, WorkerEnd::kGone, kNow);
  EXPECT_EQ(book_.workers().at("a").ejected_until,
            kNow + WorkerBook::kEjectTime);
  EXPECT_EQ(book_.workers().at("a").n_gone, 5);
}

TEST_F(WorkerBookTest, IfAllWereGoneAllAreAsked) {
  for (const char* id : {"a", "b", "c"}) {
    Enter({.model = "m"});
    book_.Release(id, 0, WorkerEnd::kGone, kNow);
  }
  EXPECT_NE(Enter({.model = "m"}), "");
}

TEST_F(WorkerBookTest, AClientThatLeftSaysNothingOfTheWorker) {
  Enter({.model = "m", .tried = {"b", "c"}});
  book_.Release("a", 0, WorkerEnd::kLeft, kNow);
  EXPECT_EQ(book_.workers().at("a").n_gone, 0);
  EXPECT_EQ(book_.workers().at("a").in_flight, 0);
}

TEST_F(WorkerBookTest, WhatAWorkerDoesStaysKnownWhenTheListChanges) {
  Load("b", 5'000);
  Have({"b", "d"});
  EXPECT_EQ(book_.workers().at("b").in_flight_bytes, 5'000);
  Have({"d"});
  book_.Release("b", 5'000, WorkerEnd::kAnswered, kNow);  // it is no more
  Have({"b"});
  EXPECT_EQ(book_.workers().at("b").in_flight_bytes, 0);
  book_.Release("b", 5'000, WorkerEnd::kAnswered, kNow);
  EXPECT_EQ(book_.workers().at("b").in_flight_bytes, 0);
}

TEST_F(WorkerBookTest, HasAtMostSoManyWorkers) {
  std::vector<std::string> ids;
  for (size_t i = 0; i <= WorkerBook::kMaxWorkers; ++i) {
    ids.push_back(absl::StrCat("w", i));
  }
  book_.SetWorkers(ids);
  EXPECT_EQ(book_.workers().size(), WorkerBook::kMaxWorkers);
  ids.pop_back();
  book_.SetWorkers(ids);
  EXPECT_EQ(book_.workers().size(), WorkerBook::kMaxWorkers);
}

}  // namespace
}  // namespace plimsoll::services
