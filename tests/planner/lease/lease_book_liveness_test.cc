// No reading frees bytes of a process that is known to live or spoke lately,
// and who was silent and presents what a reading ended gets it back.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kWhole = 1'000;

class LeaseBookLivenessTest : public ::testing::Test {
 protected:
  LeaseBookLivenessTest() {
    for (const char* device : {"d", "e"}) {
      EXPECT_TRUE(book_.RegisterDevice({device, kWhole, 0, std::nullopt}).ok());
    }
  }
  int64_t Reserve(const std::string& id, int64_t bytes, const std::string& by) {
    return ReserveOn("d", id, bytes, by);
  }
  int64_t ReserveOn(const std::string& device, const std::string& id,
                    int64_t bytes, const std::string& by) {
    const auto lease = book_.Reserve(
        {absl::StrCat("r", id), id, device, "h", "m", bytes, by}, At(0));
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease->epoch;
  }
  int64_t Load(const std::string& id, int64_t bytes, const std::string& by) {
    return LoadOn("d", id, bytes, by);
  }
  int64_t LoadOn(const std::string& device, const std::string& id,
                 int64_t bytes, const std::string& by) {
    const int64_t epoch = ReserveOn(device, id, bytes, by);
    EXPECT_TRUE(book_.Confirm(id, epoch, bytes, At(0)).ok());
    return epoch;
  }
  // Presents what Reserve granted.
  absl::StatusOr<Lease> Present(const std::string& id, int64_t epoch,
                                int64_t bytes, const std::string& by,
                                double now) {
    return book_.Adopt({.id = id,
                        .device_id = "d",
                        .holder = "h",
                        .process = by,
                        .bytes = bytes,
                        .measured_bytes = bytes,
                        .epoch = epoch},
                       At(now));
  }
  void Watch(const std::string& process, double now) {
    EXPECT_TRUE(book_.SetProcessLive(process, true, At(now)).ok());
  }
  void EndWatch(const std::string& process, double now) {
    EXPECT_TRUE(book_.SetProcessLive(process, false, At(now)).ok());
  }
  // What is held after a reading by which nothing is used.
  int64_t HeldAfterReading(double now) { return HeldOnAfterReading("d", now); }
  int64_t HeldOnAfterReading(const std::string& device, double now) {
    EXPECT_TRUE(book_.ReadFree(device, kWhole, "", At(now)).ok());
    return *book_.HeldBytes(device);
  }

  LeaseBook book_;
};

TEST_F(LeaseBookLivenessTest, NoReadingEndsAReservationOfALiveProcess) {
  Watch("p", 0);
  const int64_t epoch = Reserve("a", 300, "p");
  EXPECT_EQ(HeldAfterReading(1'000'000), 300);
  EXPECT_EQ(*book_.AvailableBytes("d"), kWhole - 300);
  ASSERT_TRUE(book_.Release("a", epoch).ok());
  EXPECT_EQ(HeldAfterReading(1'000'000), 0);
}

TEST_F(LeaseBookLivenessTest, NoReadingEndsALoadOfALiveProcess) {
  Watch("p", 0);
  Load("a", 300, "p");
  EXPECT_EQ(HeldAfterReading(1'000'000), 300);
  ASSERT_TRUE(book_.RegisterDevice({"d", kWhole, 0, kWhole}).ok());
  EXPECT_EQ(*book_.HeldBytes("d"), 300);
}

TEST_F(LeaseBookLivenessTest, AllLeasesOfAProcessOnAllDevices) {
  Load("a", 100, "p");
  Watch("p", 0);
  Reserve("b", 200, "p");
  LoadOn("e", "c", 300, "p");
  Load("x", 400, "q");
  EXPECT_EQ(HeldAfterReading(100), 300);
  EXPECT_EQ(HeldOnAfterReading("e", 100), 300);
}

TEST_F(LeaseBookLivenessTest, DeathIsTheProof) {
  Watch("p", 0);
  Load("a", 300, "p");
  book_.Expire(At(100));
  EXPECT_EQ(book_.ProcessDied("p"), 300);
  // The name counts for nothing afterwards.
  Load("b", 300, "p");
  EXPECT_EQ(HeldAfterReading(100), 0);
}

TEST_F(LeaseBookLivenessTest, AnEndOfTheWatchAsksForFreshReadings) {
  Watch("p", 0);
  Load("a", 100, "p");
  Reserve("b", 200, "p");
  EXPECT_EQ(HeldAfterReading(100), 300);
  EndWatch("p", 100);
  EXPECT_EQ(HeldAfterReading(104.999), 300);
  EXPECT_EQ(HeldAfterReading(105), 0);
}

TEST_F(LeaseBookLivenessTest, AnEndOfTheWatchBeforeTheLeaseExpires) {
  Watch("p", 0);
  Load("a", 100, "p");
  Reserve("b", 200, "p");
  Load("c", 300, "q");
  EndWatch("p", 7);
  EXPECT_EQ(HeldAfterReading(11.999), 300);
  EXPECT_EQ(HeldAfterReading(12), 200);
  EXPECT_EQ(HeldAfterReading(15), 0);
}

TEST_F(LeaseBookLivenessTest, AWatchThatComesBackCounts) {
  Watch("p", 0);
  Load("a", 100, "p");
  book_.Expire(At(100));
  EndWatch("p", 100);
  Watch("p", 101);
  EXPECT_EQ(HeldAfterReading(200), 100);
}

TEST_F(LeaseBookLivenessTest, AnEndOfNoWatchChangesNothing) {
  Load("a", 100, "p");
  book_.Expire(At(100));
  EndWatch("p", 100);
  EXPECT_EQ(HeldAfterReading(100), 0);
}

// Its memory is swapped out, and it was stopped: the first of its renewals must
// not end its other leases.
TEST_F(LeaseBookLivenessTest, ARenewalSpeaksForAllLeasesOfItsProcess) {
  const int64_t a = Load("a", 100, "p");
  Load("b", 200, "p");
  Reserve("c", 300, "p");
  Load("x", 400, "q");
  ASSERT_TRUE(book_.Renew("a", a, At(60)).ok());
  EXPECT_EQ(HeldAfterReading(60), 600);
  EXPECT_EQ(HeldAfterReading(69.999), 600);
  EXPECT_EQ(HeldAfterReading(70), 0);
}

TEST_F(LeaseBookLivenessTest, GrantsConfirmationsAndClaimsAreSignsOfLifeToo) {
  Load("a", 100, "p");
  const int64_t b = ReserveOn("e", "b", 1, "p");
  ASSERT_TRUE(book_.Confirm("b", b, 1, At(9)).ok());
  EXPECT_EQ(HeldAfterReading(18.5), 100);
  ASSERT_TRUE(book_.Reserve({"rc", "c", "e", "h", "m", 1, "p"}, At(18.5)).ok());
  EXPECT_EQ(HeldAfterReading(28), 100);
  ASSERT_TRUE(book_
                  .Adopt({.id = "b",
                          .device_id = "e",
                          .holder = "h",
                          .process = "p",
                          .bytes = 1,
                          .epoch = b},
                         At(28))
                  .ok());
  EXPECT_EQ(HeldAfterReading(37.5), 100);
  EXPECT_EQ(HeldAfterReading(38), 0);
}

TEST_F(LeaseBookLivenessTest, WhoHasNoNameSpeaksForOneLease) {
  const int64_t a = Load("a", 100, "");
  Load("b", 200, "");
  ASSERT_TRUE(book_.Renew("a", a, At(60)).ok());
  EXPECT_EQ(HeldAfterReading(60), 100);
}

TEST_F(LeaseBookLivenessTest, WhatAReadingEndedIsTakenInAgain) {
  const int64_t a = Load("a", 300, "p");
  const int64_t b = Reserve("b", 200, "p");
  EXPECT_EQ(HeldAfterReading(60), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(book_.Renew("a", a, At(61)).status()));
  const auto refused = [&](int64_t epoch, int64_t bytes,
                           const std::string& by) {
    return absl::IsFailedPrecondition(
        Present("a", epoch, bytes, by, 61).status());
  };
  EXPECT_TRUE(refused(a + 1, 300, "p"));
  EXPECT_TRUE(refused(a, 299, "p"));
  EXPECT_TRUE(refused(a, 300, "q"));
  const auto back = Present("a", a, 300, "p", 61);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->state, LeaseState::kConfirmed);
  EXPECT_EQ(back->purpose, "m");
  EXPECT_EQ(back->expires, At(71));
  EXPECT_TRUE(book_.Renew("a", a, At(62)).ok());
  // A claim says of a reservation that it was allocated.
  EXPECT_TRUE(Present("b", b, 200, "p", 62).ok());
  EXPECT_EQ(*book_.HeldBytes("d"), 500);
  EXPECT_EQ(*book_.AvailableBytes("d"), kWhole - 500);
}

TEST_F(LeaseBookLivenessTest, ItIsNotIfOthersHoldItsBytes) {
  const int64_t a = Load("a", 300, "p");
  EXPECT_EQ(HeldAfterReading(60), 0);
  const auto other =
      book_.Reserve({"ro", "o", "d", "h", "m", 701, "q"}, At(60));
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Present("a", a, 300, "p", 61).status()));
  EXPECT_EQ(*book_.HeldBytes("d"), 701);
  ASSERT_TRUE(book_.Release("o", other->epoch).ok());
  EXPECT_TRUE(Present("a", a, 300, "p", 62).ok());
}

TEST_F(LeaseBookLivenessTest, NorIfItsHolderGaveItBack) {
  const int64_t a = Load("a", 300, "p");
  EXPECT_EQ(HeldAfterReading(60), 0);
  ASSERT_TRUE(book_.Release("a", a).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Present("a", a, 300, "p", 61).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Present("", a, 1, "p", 61).status()));
}

TEST_F(LeaseBookLivenessTest, ARefusedMeasurementTakesNothingIn) {
  const int64_t a = Load("a", 300, "p");
  EXPECT_EQ(HeldAfterReading(60), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(book_
                                          .Adopt({.id = "a",
                                                  .device_id = "d",
                                                  .holder = "h",
                                                  .process = "p",
                                                  .bytes = 300,
                                                  .measured_bytes = 301,
                                                  .epoch = a},
                                                 At(61))
                                          .status()));
  EXPECT_EQ(*book_.HeldBytes("d"), 0);
}

// The book forgets released leases at its limit, and not one that lives again.
TEST_F(LeaseBookLivenessTest, WhatIsTakenInAgainIsNotForgotten) {
  const int64_t a = Load("a", 300, "p");
  EXPECT_EQ(HeldAfterReading(60), 0);
  ASSERT_TRUE(Present("a", a, 300, "p", 60).ok());
  for (int64_t i = 0; i < LeaseBook::kMaxRememberedRequests; ++i) {
    const std::string id = absl::StrCat(i);
    ASSERT_TRUE(book_.Release(id, ReserveOn("e", id, 1, "q")).ok());
  }
  EXPECT_TRUE(book_.Renew("a", a, At(61)).ok());
  EXPECT_EQ(*book_.HeldBytes("d"), 300);
}

TEST_F(LeaseBookLivenessTest, RestoredAndAdoptedLeasesAreProtectedToo) {
  LeaseImage image;
  Lease lease = {.id = "a",
                 .device_id = "d",
                 .holder = "h",
                 .process = "p",
                 .bytes = 100,
                 .epoch = 1};
  image.records.push_back({lease, "ra"});
  image.is_partial = true;
  LeaseBook book;
  ASSERT_TRUE(book.Restore(image, At(0)).ok());
  ASSERT_TRUE(book.RegisterDevice({"d", kWhole, 0, std::nullopt}).ok());
  lease.id = "b";
  lease.measured_bytes = 100;
  ASSERT_TRUE(book.Adopt(lease, At(1)).ok());
  book.Expire(At(100));
  ASSERT_TRUE(book.SetProcessLive("p", true, At(100)).ok());
  ASSERT_TRUE(book.ReadFree("d", kWhole, "", At(100)).ok());
  EXPECT_EQ(*book.HeldBytes("d"), 200);
}

TEST_F(LeaseBookLivenessTest, WhoHasNoNameIsNotOneProcess) {
  Load("a", 100, "");
  EXPECT_EQ(book_.ProcessDied(""), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(book_.SetProcessLive("", true, At(0))));
  EXPECT_EQ(*book_.HeldBytes("d"), 100);
}

TEST_F(LeaseBookLivenessTest, AProcessHoldsLeasesFromTheFirstToTheLast) {
  EXPECT_FALSE(book_.HoldsLeases("p"));
  Watch("p", 0);
  EXPECT_FALSE(book_.HoldsLeases("p")) << "to live is not to hold";
  const int64_t a = Reserve("a", 100, "p");
  const int64_t b = LoadOn("e", "b", 100, "p");
  EXPECT_TRUE(book_.HoldsLeases("p"));
  EXPECT_FALSE(book_.HoldsLeases("q"));
  EXPECT_TRUE(book_.Release("a", a).ok());
  book_.Expire(At(100));
  EXPECT_TRUE(book_.HoldsLeases("p")) << "a suspect lease is held";
  EXPECT_TRUE(book_.Release("b", b).ok());
  EXPECT_FALSE(book_.HoldsLeases("p"));
}

TEST_F(LeaseBookLivenessTest, AfterAReadingOrADeathNothingIsHeld) {
  const int64_t a = Load("a", 100, "p");
  EXPECT_EQ(HeldAfterReading(100), 0);
  EXPECT_FALSE(book_.HoldsLeases("p"));
  ASSERT_TRUE(Present("a", a, 100, "p", 101).ok());
  EXPECT_TRUE(book_.HoldsLeases("p"));
  EXPECT_EQ(book_.ProcessDied("p"), 100);
  EXPECT_FALSE(book_.HoldsLeases("p"));
  Load("b", 100, "");
  EXPECT_FALSE(book_.HoldsLeases("")) << "who has no name is not one process";
}

TEST_F(LeaseBookLivenessTest, ProcessesUpToTheirLimitAndNotPastIt) {
  const std::string longest(LeaseBook::kMaxIdBytes, 'p');
  Watch(longest, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(
      book_.SetProcessLive(longest + "p", true, At(0))));
  for (int64_t i = 1; i < LeaseBook::kMaxLiveProcesses; ++i) {
    Watch(absl::StrCat(i), 0);
  }
  EXPECT_TRUE(
      absl::IsResourceExhausted(book_.SetProcessLive("more", true, At(0))));
  Watch("1", 0);
  EXPECT_EQ(book_.ProcessDied("1"), 0);
  Watch("more", 0);
}

TEST_F(LeaseBookLivenessTest, TimesAreAsGiven) {
  LeaseBook book(1, nullptr,
                 {.ttl = absl::Seconds(1),
                  .grace = absl::Milliseconds(500),
                  .recovery = absl::Seconds(2)});
  EXPECT_EQ(book.times().ttl, absl::Seconds(1));
  ASSERT_TRUE(book.RegisterDevice({"d", kWhole, 0, std::nullopt}).ok());
  book.Recover(At(0));
  EXPECT_EQ(book.RecoveryLeft(At(0)), absl::Seconds(2));
  book.Recover(At(0), absl::ZeroDuration());
  const auto lease = book.Reserve({"r", "a", "d", "h", "m", 1, "p"}, At(0));
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->expires, At(1));
  ASSERT_TRUE(book.ReadFree("d", kWhole, "", At(1.499)).ok());
  EXPECT_EQ(*book.HeldBytes("d"), 1);
  ASSERT_TRUE(book.ReadFree("d", kWhole, "", At(1.5)).ok());
  EXPECT_EQ(*book.HeldBytes("d"), 0);
}

TEST_F(LeaseBookLivenessTest, ForceFreesWhatAWholeTimeToLiveWasSilent) {
  Load("a", 600, "p");
  const double ttl = absl::ToDoubleSeconds(book_.times().ttl);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(book_.ForceRelease("a", At(0)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book_.ForceRelease("a", At(ttl - 0.001)).status()));
  EXPECT_EQ(*book_.HeldBytes("d"), 600);
  const auto freed = book_.ForceRelease("a", At(ttl));
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(freed->state, LeaseState::kReleased);
  EXPECT_EQ(*book_.HeldBytes("d"), 0);
  EXPECT_TRUE(absl::IsNotFound(book_.ForceRelease("a", At(ttl)).status()));
  EXPECT_TRUE(absl::IsNotFound(book_.ForceRelease("b", At(ttl)).status()));
}

TEST_F(LeaseBookLivenessTest, ForceFreesNothingOfAProcessThatIsSeenToLive) {
  Load("a", 600, "p");
  Watch("p", 0);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(book_.ForceRelease("a", At(1'000)).status()));
  EndWatch("p", 1'000);
  EXPECT_TRUE(book_.ForceRelease("a", At(2'000)).ok());
}

// Its leases are renewed one after the other.
TEST_F(LeaseBookLivenessTest, ForceFreesNothingOfAProcessThatSpokeLately) {
  Load("a", 100, "p");
  const int64_t epoch = Load("b", 100, "p");
  ASSERT_TRUE(book_.Renew("b", epoch, At(9)).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(book_.ForceRelease("a", At(18)).status()));
  EXPECT_TRUE(book_.ForceRelease("a", At(19)).ok());
}

// After a restart all leases are suspect, until they are renewed.
TEST_F(LeaseBookLivenessTest, ForceWaitsAfterARestart) {
  LeaseImage image;
  image.records.push_back({.lease = {.id = "old",
                                     .device_id = "d",
                                     .holder = "h",
                                     .bytes = 10,
                                     .epoch = 1,
                                     .was_confirmed = true},
                           .request_id = ""});
  ASSERT_TRUE(book_.Restore(image, At(100)).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(book_.ForceRelease("old", At(109)).status()));
  EXPECT_TRUE(book_.ForceRelease("old", At(110)).ok());
}

TEST_F(LeaseBookLivenessTest, WhoLivesGetsBackWhatForceTook) {
  const int64_t epoch = Load("a", 600, "p");
  ASSERT_TRUE(book_.ForceRelease("a", At(20)).ok());
  EXPECT_TRUE(Present("a", epoch, 600, "p", 21).ok());
  EXPECT_EQ(*book_.HeldBytes("d"), 600);
  // The holder does not get back bytes that another lease has by now.
  ASSERT_TRUE(book_.ForceRelease("a", At(60)).ok());
  ASSERT_TRUE(book_.Reserve({"r", "b", "d", "h", "m", 500, "q"}, At(61)).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Present("a", epoch, 600, "p", 62).status()));
}

// The last reading was taken before or after the holder's end: nobody knows.
TEST_F(LeaseBookLivenessTest, ForceAddsNothingToAReading) {
  Load("a", 600, "p");
  Watch("p", 0);
  ASSERT_TRUE(book_.ReadFree("d", 300, "", At(1)).ok());
  EndWatch("p", 2);
  ASSERT_TRUE(book_.ForceRelease("a", At(60)).ok());
  EXPECT_EQ(*book_.AvailableBytes("d"), 300);
}

}  // namespace
}  // namespace plimsoll::planner
