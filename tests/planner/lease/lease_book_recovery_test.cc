// Leases over restarts, readings as proof, unhealthy devices and margins.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kDeviceBytes = 1'000;

Lease Claim(const std::string& id, int64_t epoch, int64_t bytes) {
  Lease lease;
  lease.id = id;
  lease.device_id = "d";
  lease.holder = "h";
  lease.process = "p";
  lease.bytes = bytes;
  lease.measured_bytes = bytes;
  lease.epoch = epoch;
  return lease;
}

// Remembers what it was given; can be told to fail.
class TestJournal final : public LeaseJournal {
 public:
  absl::Status Write(const LeaseRecord& record, int64_t epoch) override {
    if (fails) return absl::UnavailableError("full");
    written.push_back(record);
    next_epoch = epoch;
    return absl::OkStatus();
  }
  void Note(const Lease& lease) override { noted.push_back(lease); }

  bool fails = false;
  int64_t next_epoch = 0;
  std::vector<LeaseRecord> written;
  std::vector<Lease> noted;
};

class LeaseBookRecoveryTest : public ::testing::Test {
 protected:
  LeaseBookRecoveryTest() { Register(book_); }

  static void Register(LeaseBook& book) {
    RegisterWithReading(book, std::nullopt);
  }
  static void RegisterWithReading(LeaseBook& book,
                                  std::optional<int64_t> reading) {
    ASSERT_TRUE(book.RegisterDevice({"d", kDeviceBytes, 0, reading}, "h").ok());
  }
  static absl::StatusOr<Lease> Reserve(LeaseBook& book, const std::string& id,
                                       int64_t bytes, double now) {
    return ReserveBy("p", book, id, bytes, now);
  }
  static absl::StatusOr<Lease> ReserveBy(const std::string& process,
                                         LeaseBook& book, const std::string& id,
                                         int64_t bytes, double now) {
    return book.Reserve(
        {absl::StrCat("r", id), id, "d", "h", "m", bytes, process}, At(now));
  }
  // A confirmed lease of which all is allocated, granted at 0.
  int64_t Load(const std::string& id, int64_t bytes) {
    return LoadBy("p", id, bytes);
  }
  int64_t LoadBy(const std::string& process, const std::string& id,
                 int64_t bytes) {
    const auto lease = ReserveBy(process, book_, id, bytes, 0);
    EXPECT_TRUE(book_.Confirm(id, lease->epoch, bytes, At(0)).ok());
    return lease->epoch;
  }
  int64_t Held() { return *book_.HeldBytes("d"); }

  TestJournal journal_;
  LeaseBook book_{1, &journal_};
};

TEST_F(LeaseBookRecoveryTest, ARecoveringBookGrantsNothingForOneTtl) {
  LeaseBook book(500);
  Register(book);
  book.Recover(At(100));
  EXPECT_EQ(book.RecoveryLeft(At(100)), LeaseTimes::kDefaultTtl);
  EXPECT_TRUE(absl::IsUnavailable(Reserve(book, "a", 1, 109.999).status()));
  EXPECT_EQ(book.RecoveryLeft(At(110)), absl::ZeroDuration());
  // The refusal was not remembered.
  const auto lease = Reserve(book, "a", 1, 110);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->epoch, 500);
}

TEST_F(LeaseBookRecoveryTest, PresentedLeasesAreAdoptedWithIdAndEpoch) {
  LeaseBook book(500, &journal_);
  Register(book);
  book.Recover(At(0));
  // More than the device has: it is in use, whatever the device has.
  ASSERT_TRUE(book.Adopt(Claim("a", 7, 600), At(1)).ok());
  const auto second = book.Adopt(Claim("b", 900, 600), At(2));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->epoch, 900);
  EXPECT_EQ(second->state, LeaseState::kConfirmed);
  EXPECT_EQ(second->expires, At(12));
  EXPECT_EQ(*book.HeldBytes("d"), 1'200);
  EXPECT_EQ(journal_.noted.size(), 2u);
  EXPECT_TRUE(absl::IsResourceExhausted(Reserve(book, "c", 1, 11).status()));
  ASSERT_TRUE(book.Release("a", 7).ok());
  const auto next = Reserve(book, "e", 400, 11);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->epoch, 901);
  EXPECT_EQ(journal_.next_epoch, 902);
}

TEST_F(LeaseBookRecoveryTest, ALateClaimIsAdoptedOnlyIfItFits) {
  LeaseBook book(500, &journal_);
  Register(book);
  ASSERT_TRUE(Reserve(book, "a", 500, 0).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book.Adopt(Claim("b", 7, 501), At(1)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book.Adopt(Claim("b", 501, 500), At(1)).status()));  // never granted
  EXPECT_TRUE(book.Adopt(Claim("b", 7, 500), At(1)).ok());
  EXPECT_EQ(journal_.written.back().lease.id, "b");
  ASSERT_TRUE(book.Release("b", 7).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book.Adopt(Claim("b", 7, 500), At(2)).status()));
  journal_.fails = true;
  EXPECT_TRUE(
      absl::IsUnavailable(book.Adopt(Claim("c", 8, 500), At(2)).status()));
  EXPECT_EQ(*book.HeldBytes("d"), 500);
}

// The planner cannot know of it: nobody told it, and its memory is swapped out.
TEST_F(LeaseBookRecoveryTest, WhoIsCutOffForAWholeRecoveryCountsFromItsNext) {
  LeaseBook first(500);
  RegisterWithReading(first, kDeviceBytes);
  first.Recover(At(0));
  const auto granted = Reserve(first, "b", 600, 10);
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(
      first.Adopt(Claim("a", 7, 500), At(11)).status()));
  // The journal is lost once more.
  LeaseBook second(600);
  RegisterWithReading(second, kDeviceBytes);
  second.Recover(At(20));
  ASSERT_TRUE(second.Adopt(Claim("a", 7, 500), At(21)).ok());
  ASSERT_TRUE(second.Adopt(Claim("b", granted->epoch, 600), At(21)).ok());
  EXPECT_EQ(*second.HeldBytes("d"), 1'100);
  EXPECT_TRUE(absl::IsResourceExhausted(Reserve(second, "c", 1, 30).status()));
  ASSERT_TRUE(second.Release("b", granted->epoch).ok());
  EXPECT_TRUE(
      absl::IsResourceExhausted(Reserve(second, "d", 501, 30).status()));
  EXPECT_TRUE(Reserve(second, "e", 500, 30).ok());
}

TEST_F(LeaseBookRecoveryTest, AKnownClaimIsRenewedOrConfirmed) {
  const auto reserved = Reserve(book_, "a", 100, 0);
  book_.Expire(At(30));
  Lease claim = Claim("a", reserved->epoch, 100);
  claim.measured_bytes = 101;
  EXPECT_TRUE(absl::IsInvalidArgument(book_.Adopt(claim, At(30)).status()));
  claim.measured_bytes = 90;
  const auto confirmed = book_.Adopt(claim, At(30));
  ASSERT_TRUE(confirmed.ok()) << confirmed.status();
  EXPECT_EQ(confirmed->state, LeaseState::kConfirmed);
  EXPECT_EQ(confirmed->measured_bytes, 90);
  EXPECT_EQ(book_.Adopt(claim, At(31))->expires, At(41));
  EXPECT_EQ(book_.Adopt(claim, At(31))->measured_bytes, 90);
  claim.epoch += 1;
  EXPECT_TRUE(absl::IsFailedPrecondition(book_.Adopt(claim, At(31)).status()));
}

TEST_F(LeaseBookRecoveryTest, SenselessClaimsAreRefused) {
  book_.Recover(At(0));
  const auto refused = [this](Lease claim) {
    return absl::IsInvalidArgument(book_.Adopt(claim, At(1)).status());
  };
  EXPECT_TRUE(refused(Claim("", 1, 1)));
  EXPECT_TRUE(refused(Claim("a", 0, 1)));
  EXPECT_TRUE(refused(Claim("a", LeaseBook::kMaxEpochsAhead + 2, 1)));
  EXPECT_TRUE(refused(Claim("a", 1, 0)));
  EXPECT_TRUE(refused(Claim("a", 1, kDeviceBytes + 1)));
  Lease claim = Claim("a", 1, 10);
  claim.measured_bytes = 11;
  EXPECT_TRUE(refused(claim));
  claim = Claim("a", 1, 10);
  claim.process = std::string(LeaseBook::kMaxIdBytes + 1, 'p');
  EXPECT_TRUE(refused(claim));
  claim = Claim("a", 1, 10);
  claim.device_id = "nowhere";
  EXPECT_TRUE(absl::IsNotFound(book_.Adopt(claim, At(1)).status()));
  EXPECT_TRUE(
      book_.Adopt(Claim("a", LeaseBook::kMaxEpochsAhead + 1, 1), At(1)).ok());
}

TEST_F(LeaseBookRecoveryTest, ClaimsNeverOverflow) {
  ASSERT_TRUE(book_.RegisterDevice({"d", kMax, 0, std::nullopt}).ok());
  book_.Recover(At(0));
  ASSERT_TRUE(book_.Adopt(Claim("a", 1, kMax), At(1)).ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(book_.Adopt(Claim("b", 2, 1), At(1)).status()));
}

TEST_F(LeaseBookRecoveryTest, ClaimsUpToTheLimitOfLeases) {
  book_.Recover(At(0));
  for (int64_t i = 0; i < LeaseBook::kMaxLeases; ++i) {
    ASSERT_TRUE(book_.Adopt(Claim(absl::StrCat(i), 1, 1), At(1)).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      book_.Adopt(Claim("more", 1, 1), At(1)).status()));
}

TEST_F(LeaseBookRecoveryTest, ARestoredBookKnowsLeasesRepliesAndEpochs) {
  LeaseImage image;
  image.records.push_back({Claim("a", 3, 400), "ra"});
  image.records[0].lease.was_confirmed = true;
  image.records.push_back({Claim("b", 4, 100), "rb"});
  image.records[1].lease.state = LeaseState::kReleased;
  image.next_epoch = 9;
  LeaseBook book;
  ASSERT_TRUE(book.Restore(image, At(50)).ok());
  ASSERT_EQ(book.Leases().size(), 1u);
  EXPECT_EQ(book.Leases()[0].state, LeaseState::kSuspect);
  EXPECT_EQ(book.Leases()[0].expires, At(60));
  EXPECT_TRUE(book.Devices().empty());
  EXPECT_TRUE(absl::IsNotFound(book.HeldBytes("d").status()));
  Register(book);
  EXPECT_EQ(*book.HeldBytes("d"), 400);
  EXPECT_EQ(Reserve(book, "a", 400, 51)->epoch, 3);
  EXPECT_EQ(Reserve(book, "b", 100, 51)->epoch, 4);
  EXPECT_EQ(Reserve(book, "c", 600, 51)->epoch, 9);
  EXPECT_EQ(book.Renew("a", 3, At(55))->state, LeaseState::kConfirmed);
  EXPECT_TRUE(absl::IsFailedPrecondition(book.Renew("b", 4, At(55)).status()));
}

TEST_F(LeaseBookRecoveryTest, ARestoredReservationGetsOneWholeTtl) {
  LeaseImage image;
  image.records.push_back({Claim("a", 3, 400), "ra"});
  LeaseBook book;
  ASSERT_TRUE(book.Restore(image, At(50)).ok());
  EXPECT_EQ(book.Renew("a", 3, At(59))->state, LeaseState::kReserved);
  EXPECT_TRUE(absl::IsFailedPrecondition(book.Renew("a", 3, At(69)).status()));
  // It may have been confirmed after it was written down.
  RegisterWithReading(book, kDeviceBytes - 1);
  book.Expire(At(100));
  RegisterWithReading(book, kDeviceBytes - 1);
  EXPECT_EQ(*book.HeldBytes("d"), 400);
  RegisterWithReading(book, kDeviceBytes);
  EXPECT_EQ(*book.HeldBytes("d"), 0);
}

TEST_F(LeaseBookRecoveryTest, APartialImageMeansRecovery) {
  LeaseImage image;
  image.is_partial = true;
  LeaseBook book(77);
  ASSERT_TRUE(book.Restore(image, At(50)).ok());
  EXPECT_EQ(book.RecoveryLeft(At(50)), LeaseTimes::kDefaultTtl);
}

TEST_F(LeaseBookRecoveryTest, SenselessRecordsAreDataLoss) {
  const auto is_refused = [](const std::vector<LeaseRecord>& records) {
    LeaseImage image;
    image.records = records;
    LeaseBook book;
    return absl::IsDataLoss(book.Restore(image, At(0)));
  };
  EXPECT_FALSE(is_refused({{Claim("a", 1, 1), ""}}));
  EXPECT_TRUE(is_refused({{Claim("a", 1, 1), ""}, {Claim("a", 2, 1), ""}}));
  EXPECT_TRUE(is_refused({{Claim("a", 1, 0), ""}}));
  EXPECT_TRUE(is_refused({{Claim("a", 0, 1), ""}}));
  EXPECT_TRUE(is_refused({{Claim("a", 1, 1), std::string(257, 'r')}}));
  EXPECT_TRUE(is_refused({{Claim("a", 1, kMax), ""}, {Claim("b", 2, 1), ""}}));
  std::vector<LeaseRecord> records;
  for (int64_t i = 0; i < LeaseBook::kMaxLeases; ++i) {
    records.push_back({Claim(absl::StrCat(i), 1, 1), ""});
  }
  EXPECT_FALSE(is_refused(records));
  records.push_back({Claim("more", 1, 1), ""});
  EXPECT_TRUE(is_refused(records));
}

TEST_F(LeaseBookRecoveryTest, WithoutAJournalEntryThereIsNoGrant) {
  journal_.fails = true;
  EXPECT_TRUE(absl::IsUnavailable(Reserve(book_, "a", 10, 0).status()));
  EXPECT_EQ(Held(), 0);
  journal_.fails = false;
  // The epoch of the failed one is spent: the journal may have kept it.
  EXPECT_EQ(Reserve(book_, "a", 10, 0)->epoch, 2);
  EXPECT_EQ(journal_.written[0].request_id, "ra");
}

TEST_F(LeaseBookRecoveryTest, AReadingFreesAnExpiredLoadThatCannotBeThere) {
  const int64_t epoch = Load("a", 300);
  RegisterWithReading(book_, kDeviceBytes);  // it has not expired
  EXPECT_EQ(Held(), 300);
  book_.Expire(At(10));
  RegisterWithReading(book_, kDeviceBytes - 300);  // it may be there
  EXPECT_EQ(Held(), 300);
  RegisterWithReading(book_, kDeviceBytes - 299);
  EXPECT_EQ(Held(), 0);
  EXPECT_EQ(*book_.AvailableBytes("d"), kDeviceBytes - 299);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(book_.Renew("a", epoch, At(11)).status()));
}

TEST_F(LeaseBookRecoveryTest, AVouchingLeaseIsTakenOffTheReading) {
  Load("a", 300);
  const int64_t b = LoadBy("q", "b", 500);
  ASSERT_TRUE(book_.Renew("b", b, At(9)).ok());
  ASSERT_TRUE(book_.ReadFree("d", 500, "", At(10)).ok());
  EXPECT_EQ(Held(), 800);
  ASSERT_TRUE(book_.ReadFree("d", 200, "b", At(10)).ok());
  EXPECT_EQ(Held(), 800);
  ASSERT_TRUE(book_.ReadFree("d", 500, "a", At(10)).ok());  // not itself
  EXPECT_EQ(Held(), 800);
  ASSERT_TRUE(book_.ReadFree("d", 500, "b", At(10)).ok());
  EXPECT_EQ(Held(), 500);
}

TEST_F(LeaseBookRecoveryTest, AReadingEndsAReservationAfterItsGraceOnly) {
  ASSERT_TRUE(Reserve(book_, "a", 300, 0).ok());
  ASSERT_TRUE(book_.ReadFree("d", kDeviceBytes, "", At(14.999)).ok());
  EXPECT_EQ(Held(), 300);
  // What it still has is in the reading.
  ASSERT_TRUE(book_.ReadFree("d", 800, "", At(15)).ok());
  EXPECT_EQ(Held(), 0);
  EXPECT_EQ(*book_.AvailableBytes("d"), 800);
}

TEST_F(LeaseBookRecoveryTest, BadReadingsAreRefused) {
  EXPECT_TRUE(absl::IsNotFound(book_.ReadFree("x", 1, "", At(0))));
  EXPECT_TRUE(absl::IsInvalidArgument(book_.ReadFree("d", -1, "", At(0))));
}

TEST_F(LeaseBookRecoveryTest, AnUnhealthyDeviceWaitsForAFreshWorker) {
  const auto lease = Reserve(book_, "a", 100, 0);
  EXPECT_TRUE(book_.IsHealthy("d"));
  EXPECT_FALSE(book_.IsHealthy("x"));
  EXPECT_TRUE(absl::IsNotFound(book_.MarkUnhealthy("x", "h")));
  ASSERT_TRUE(book_.MarkUnhealthy("d", "broke it").ok());
  EXPECT_FALSE(book_.IsHealthy("d"));
  EXPECT_EQ(*book_.AvailableBytes("d"), 0);
  EXPECT_TRUE(absl::IsUnavailable(Reserve(book_, "b", 1, 0).status()));
  const auto registers = [this](const std::string& holder) {
    EXPECT_TRUE(
        book_.RegisterDevice({"d", kDeviceBytes, 0, std::nullopt}, holder)
            .ok());
    return book_.IsHealthy("d");
  };
  EXPECT_FALSE(registers(""));
  EXPECT_FALSE(registers("broke it"));
  EXPECT_FALSE(registers("h"));  // still holds something there
  ASSERT_TRUE(book_.Release("a", lease->epoch).ok());
  EXPECT_TRUE(registers("h"));
  EXPECT_TRUE(Reserve(book_, "b", 1, 0).ok());
}

TEST_F(LeaseBookRecoveryTest, ReleasedLeasesAreForgottenOldestFirst) {
  ASSERT_TRUE(book_.RegisterDevice({"d", kMax, 0, std::nullopt}).ok());
  LeaseBook book;
  Register(book);
  for (int64_t i = 0; i <= LeaseBook::kMaxRememberedRequests; ++i) {
    const auto lease = Reserve(book, absl::StrCat(i), 1, 0);
    ASSERT_TRUE(book.Release(lease->id, lease->epoch).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(book.Release("0", 1).status()));
  EXPECT_TRUE(book.Release("1", 2).ok());
}

}  // namespace
}  // namespace plimsoll::planner
