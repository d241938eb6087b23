// Epochs: what is presented cannot use them up, and what the book writes it
// reads again.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"
#include "planner/lease/lease_start.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kLast = LeaseBook::kMaxEpoch - 1;

Lease Claim(const std::string& id, int64_t epoch) {
  return {.id = id,
          .device_id = "d",
          .holder = "h",
          .process = "p",
          .bytes = 1,
          .measured_bytes = 1,
          .epoch = epoch};
}

// Keeps what it is given, as a file would.
class KeepingJournal final : public LeaseJournal {
 public:
  absl::Status Write(const LeaseRecord& record, int64_t next_epoch) override {
    image.records.push_back(record);
    image.next_epoch = next_epoch;
    image.is_partial = false;
    return absl::OkStatus();
  }
  void Note(const Lease& lease) override {
    image.records.push_back({lease, ""});
  }

  LeaseImage image = {.records = {}, .next_epoch = 1, .is_partial = true};
};

class LeaseBookEpochsTest : public ::testing::Test {
 protected:
  static std::unique_ptr<LeaseBook> Recovering(int64_t first_epoch,
                                               LeaseJournal* journal) {
    auto book = std::make_unique<LeaseBook>(first_epoch, journal);
    EXPECT_TRUE(book->RegisterDevice({"d", 1'000, 0, std::nullopt}).ok());
    book->Recover(At(0));
    return book;
  }
  static absl::StatusOr<Lease> Reserve(LeaseBook& book, const std::string& id) {
    return book.Reserve({absl::StrCat("r", id), id, "d", "h", "m", 1, "p"},
                        At(100));
  }

  KeepingJournal journal_;
};

TEST_F(LeaseBookEpochsTest, EpochsUpToThePlausibleAndNotPastIt) {
  for (const int64_t first : {int64_t{1}, PlannerStart::kMaxFirstEpoch}) {
    const auto book = Recovering(first, nullptr);
    const int64_t last = first + LeaseBook::kMaxEpochsAhead;
    for (const int64_t epoch : {last + 1, LeaseBook::kMaxEpoch, kMax}) {
      EXPECT_TRUE(absl::IsInvalidArgument(
          book->Adopt(Claim("a", epoch), At(1)).status()));
    }
    EXPECT_TRUE(book->Adopt(Claim("a", last), At(1)).ok());
    // What was taken in does not move the limit.
    EXPECT_TRUE(absl::IsInvalidArgument(
        book->Adopt(Claim("b", last + 1), At(1)).status()));
    EXPECT_EQ(Reserve(*book, "c")->epoch, last + 1);
  }
}

TEST_F(LeaseBookEpochsTest, WhatWasGrantedAfterThatIsTakenInByTheNextPlanner) {
  const auto first = Recovering(1'000, &journal_);
  ASSERT_TRUE(
      first->Adopt(Claim("a", 1'000 + LeaseBook::kMaxEpochsAhead), At(1)).ok());
  const auto honest = Reserve(*first, "b");
  ASSERT_TRUE(honest.ok()) << honest.status();
  // The journal is lost; by then the clock has gone on.
  const auto second = Recovering(1'001, nullptr);
  EXPECT_TRUE(second->Adopt(Claim("b", honest->epoch), At(1)).ok());
}

TEST_F(LeaseBookEpochsTest, WhatTheBookWritesItReads) {
  const auto book = Recovering(1'000, &journal_);
  EXPECT_FALSE(book->Adopt(Claim("a", int64_t{1} << 62), At(1)).ok());
  ASSERT_TRUE(
      book->Adopt(Claim("a", 1'000 + LeaseBook::kMaxEpochsAhead), At(1)).ok());
  // This holds before the first grant made the journal whole, too.
  ASSERT_TRUE(LeaseBook().Restore(journal_.image, At(2)).ok());
  ASSERT_TRUE(Reserve(*book, "b").ok());
  LeaseBook next;
  ASSERT_TRUE(next.Restore(journal_.image, At(101)).ok());
  EXPECT_EQ(next.Leases().size(), 2u);
}

TEST_F(LeaseBookEpochsTest, TheLastEpochIsGrantedAndReadAgain) {
  LeaseBook book(kLast, &journal_);
  ASSERT_TRUE(book.RegisterDevice({"d", 1'000, 0, std::nullopt}).ok());
  EXPECT_EQ(Reserve(book, "a")->epoch, kLast);
  const absl::Status none = Reserve(book, "b").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_TRUE(book.Renew("a", kLast, At(101)).ok());
  LeaseBook next;
  ASSERT_TRUE(next.Restore(journal_.image, At(102)).ok());
  ASSERT_TRUE(next.RegisterDevice({"d", 1'000, 0, std::nullopt}).ok());
  EXPECT_TRUE(next.Adopt(Claim("a", kLast), At(103)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Reserve(next, "c").status()));
}

TEST_F(LeaseBookEpochsTest, NextEpochsOfAJournalUpToTheirLimits) {
  const auto is_refused = [](int64_t next_epoch) {
    LeaseImage image;
    image.next_epoch = next_epoch;
    return absl::IsDataLoss(LeaseBook().Restore(image, At(0)));
  };
  EXPECT_TRUE(is_refused(0));
  EXPECT_FALSE(is_refused(1));
  EXPECT_FALSE(is_refused(LeaseBook::kMaxEpoch));
  EXPECT_TRUE(is_refused(LeaseBook::kMaxEpoch + 1));
}

TEST_F(LeaseBookEpochsTest, AFirstEpochIsMadePossible) {
  EXPECT_EQ(Reserve(*Recovering(-5, nullptr), "a")->epoch, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Reserve(*Recovering(kMax, nullptr), "a").status()));
  EXPECT_TRUE(Recovering(kMax, nullptr)->Adopt(Claim("a", kLast), At(1)).ok());
}

TEST_F(LeaseBookEpochsTest, AClaimMustSayWhatWasGranted) {
  const auto book = Recovering(1, nullptr);
  ASSERT_TRUE(book->Adopt(Claim("a", 7), At(1)).ok());
  const auto is_refused = [&](const Lease& claim) {
    return absl::IsFailedPrecondition(book->Adopt(claim, At(2)).status());
  };
  Lease claim = Claim("a", 7);
  EXPECT_FALSE(is_refused(claim));
  claim.device_id = "e";
  EXPECT_TRUE(is_refused(claim));
  claim = Claim("a", 7);
  claim.holder = "x";
  EXPECT_TRUE(is_refused(claim));
  claim = Claim("a", 7);
  claim.process = "x";
  EXPECT_TRUE(is_refused(claim));
  claim = Claim("a", 7);
  claim.bytes = 2;
  EXPECT_TRUE(is_refused(claim));
}

}  // namespace
}  // namespace plimsoll::planner
