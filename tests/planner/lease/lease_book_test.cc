// Leases: what each call promises, and every limit.
#include "planner/lease/lease_book.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kTotal = 1'000;
constexpr int64_t kHeadroom = 100;

// A book with one device "d" of 900 grantable bytes.
class LeaseBookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        book_.RegisterDevice({"d", kTotal, kHeadroom, std::nullopt}).ok());
  }
  absl::StatusOr<Lease> Reserve(const std::string& id, int64_t bytes) {
    return ReserveAt(0, id, bytes);
  }
  absl::StatusOr<Lease> ReserveAt(double now, const std::string& id,
                                  int64_t bytes) {
    return book_.Reserve({absl::StrCat("r", ++n_requests_), id, "d", "holder",
                          "model", bytes, "p1"},
                         At(now));
  }
  int64_t Held() { return *book_.HeldBytes("d"); }

  LeaseBook book_;
  int n_requests_ = 0;
};

TEST_F(LeaseBookTest, GrantsUpToTheHeadroomAndNotPastIt) {
  EXPECT_EQ(*book_.AvailableBytes("d"), 900);
  EXPECT_TRUE(absl::IsResourceExhausted(Reserve("a", 901).status()));
  EXPECT_TRUE(Reserve("a", 900).ok());
  EXPECT_EQ(*book_.AvailableBytes("d"), 0);
  const absl::Status full = Reserve("b", 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(full.message(),
            "1 bytes are wanted, 0 are available and 900 are held by leases");
}

TEST_F(LeaseBookTest, ARepeatedRequestGetsTheFirstReply) {
  const LeaseBook::ReserveRequest request = {"again", "a", "d", "h", "m", 600};
  const auto first = book_.Reserve(request, At(0));
  ASSERT_TRUE(first.ok());
  const auto second = book_.Reserve(request, At(5));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->epoch, first->epoch);
  EXPECT_EQ(second->expires, first->expires);
  EXPECT_EQ(Held(), 600);
  ASSERT_TRUE(book_.Release("a", first->epoch).ok());
  EXPECT_EQ(book_.Reserve(request, At(6))->epoch, first->epoch);
  EXPECT_EQ(Held(), 0);
}

TEST_F(LeaseBookTest, ARepeatedRefusalStaysARefusal) {
  const LeaseBook::ReserveRequest request = {"no", "a", "d", "h", "m", 901};
  EXPECT_FALSE(book_.Reserve(request, At(0)).ok());
  ASSERT_TRUE(book_.RegisterDevice({"d", 9'000, 0, std::nullopt}).ok());
  EXPECT_FALSE(book_.Reserve(request, At(1)).ok());
}

TEST_F(LeaseBookTest, ExpiryAloneFreesNothing) {
  const auto lease = Reserve("a", 900);
  ASSERT_TRUE(lease.ok());
  book_.Expire(At(10) - absl::Nanoseconds(1));
  EXPECT_EQ(book_.Leases()[0].state, LeaseState::kReserved);
  book_.Expire(At(10));
  EXPECT_EQ(book_.Leases()[0].state, LeaseState::kSuspect);
  EXPECT_EQ(Held(), 900);
  EXPECT_TRUE(absl::IsResourceExhausted(ReserveAt(1'000'000, "b", 1).status()));
}

TEST_F(LeaseBookTest, AReservationThatExpiredCanOnlyBeReleased) {
  const auto lease = Reserve("a", 10);
  ASSERT_TRUE(lease.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book_.Confirm("a", lease->epoch, 10, At(10)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book_.Renew("a", lease->epoch, At(10)).status()));
  EXPECT_TRUE(book_.Release("a", lease->epoch).ok());
  EXPECT_EQ(Held(), 0);
}

TEST_F(LeaseBookTest, AConfirmedLeaseIsAdoptedAgainWithItsEpoch) {
  const auto lease = Reserve("a", 10);
  ASSERT_TRUE(book_.Confirm("a", lease->epoch, 8, At(1)).ok());
  book_.Expire(At(100));
  EXPECT_EQ(book_.Leases()[0].state, LeaseState::kSuspect);
  const auto back = book_.Renew("a", lease->epoch, At(100));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->state, LeaseState::kConfirmed);
  EXPECT_EQ(back->epoch, lease->epoch);
  EXPECT_EQ(back->measured_bytes, 8);
  EXPECT_EQ(back->expires, At(110));
}

TEST_F(LeaseBookTest, ConfirmIsIdempotentAndChecksTheMeasurement) {
  const auto lease = Reserve("a", 10);
  EXPECT_TRUE(absl::IsInvalidArgument(
      book_.Confirm("a", lease->epoch, 11, At(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      book_.Confirm("a", lease->epoch, -1, At(1)).status()));
  EXPECT_TRUE(book_.Confirm("a", lease->epoch, 10, At(1)).ok());
  EXPECT_TRUE(book_.Confirm("a", lease->epoch, 10, At(2)).ok());
  EXPECT_EQ(Held(), 10);
}

TEST_F(LeaseBookTest, RenewNeverShortens) {
  const auto lease = ReserveAt(50, "a", 10);
  EXPECT_EQ(book_.Renew("a", lease->epoch, At(20))->expires, At(60));
}

TEST_F(LeaseBookTest, AnotherEpochIsRefusedByEveryCall) {
  const auto lease = Reserve("a", 10);
  for (int64_t epoch : {lease->epoch - 1, lease->epoch + 1}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(
        book_.Confirm("a", epoch, 1, At(1)).status()));
    EXPECT_TRUE(
        absl::IsFailedPrecondition(book_.Renew("a", epoch, At(1)).status()));
    EXPECT_TRUE(absl::IsFailedPrecondition(book_.Release("a", epoch).status()));
  }
  EXPECT_EQ(Held(), 10);
}

TEST_F(LeaseBookTest, EpochsGrowAndAReusedIdHasANewOne) {
  const auto first = Reserve("a", 10);
  EXPECT_TRUE(absl::IsAlreadyExists(Reserve("a", 10).status()));
  ASSERT_TRUE(book_.Release("a", first->epoch).ok());
  const auto second = Reserve("a", 20);
  ASSERT_TRUE(second.ok());
  EXPECT_GT(second->epoch, first->epoch);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(book_.Release("a", first->epoch).status()));
  EXPECT_EQ(Held(), 20);
}

TEST_F(LeaseBookTest, ReleaseIsIdempotent) {
  const auto lease = Reserve("a", 10);
  EXPECT_EQ(book_.Release("a", lease->epoch)->state, LeaseState::kReleased);
  EXPECT_EQ(book_.Release("a", lease->epoch)->state, LeaseState::kReleased);
  EXPECT_EQ(Held(), 0);
  EXPECT_TRUE(book_.Leases().empty());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book_.Confirm("a", lease->epoch, 1, At(1)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      book_.Renew("a", lease->epoch, At(1)).status()));
}

TEST_F(LeaseBookTest, AProcesssDeathFreesAllItsLeases) {
  ASSERT_TRUE(Reserve("a", 10).ok());
  const auto b = Reserve("b", 20);
  ASSERT_TRUE(book_.Confirm("b", b->epoch, 20, At(1)).ok());
  ASSERT_TRUE(
      book_.Reserve({"x", "c", "d", "other", "", 40, "p2"}, At(0)).ok());
  book_.Expire(At(100));
  EXPECT_EQ(book_.ProcessDied("p1"), 30);
  EXPECT_EQ(book_.ProcessDied("p1"), 0);
  EXPECT_EQ(Held(), 40);
}

TEST_F(LeaseBookTest, UnknownNamesAreNotFound) {
  EXPECT_TRUE(absl::IsNotFound(book_.Confirm("x", 1, 1, At(0)).status()));
  EXPECT_TRUE(absl::IsNotFound(book_.Renew("x", 1, At(0)).status()));
  EXPECT_TRUE(absl::IsNotFound(book_.Release("x", 1).status()));
  EXPECT_TRUE(absl::IsNotFound(book_.AvailableBytes("x").status()));
  EXPECT_TRUE(absl::IsNotFound(book_.HeldBytes("x").status()));
  EXPECT_TRUE(absl::IsNotFound(
      book_.Reserve({"r", "l", "x", "h", "", 1}, At(0)).status()));
}

TEST_F(LeaseBookTest, MemoryTakenByStrangersIsRespected) {
  ASSERT_TRUE(book_.RegisterDevice({"d", kTotal, kHeadroom, 300}).ok());
  EXPECT_EQ(*book_.AvailableBytes("d"), 200);
  const auto a = Reserve("a", 150);
  ASSERT_TRUE(a.ok());
  // Not allocated when the reading was taken, so it comes off the reading.
  EXPECT_EQ(*book_.AvailableBytes("d"), 50);
  ASSERT_TRUE(book_.Confirm("a", a->epoch, 150, At(1)).ok());
  EXPECT_EQ(*book_.AvailableBytes("d"), 50);
  // A new reading is without it already.
  ASSERT_TRUE(book_.RegisterDevice({"d", kTotal, kHeadroom, 150}).ok());
  EXPECT_EQ(*book_.AvailableBytes("d"), 50);
  ASSERT_TRUE(book_.Release("a", a->epoch).ok());
  EXPECT_EQ(*book_.AvailableBytes("d"), 200);
}

TEST_F(LeaseBookTest, AShrunkDeviceGrantsNothingUntilItFits) {
  const auto a = Reserve("a", 500);
  ASSERT_TRUE(a.ok());
  ASSERT_TRUE(book_.RegisterDevice({"d", 400, 0, std::nullopt}).ok());
  EXPECT_EQ(*book_.AvailableBytes("d"), 0);
  EXPECT_EQ(Held(), 500);
  EXPECT_TRUE(absl::IsResourceExhausted(Reserve("b", 1).status()));
  ASSERT_TRUE(book_.Release("a", a->epoch).ok());
  EXPECT_TRUE(Reserve("b", 400).ok());
}

TEST_F(LeaseBookTest, ExtremesDoNotOverflow) {
  ASSERT_TRUE(book_.RegisterDevice({"m", kMax, 0, kMax}).ok());
  ASSERT_TRUE(book_.Reserve({"x", "big", "m", "h", "", kMax, "p"}, At(0)).ok());
  EXPECT_EQ(*book_.AvailableBytes("m"), 0);
  ASSERT_TRUE(book_.RegisterDevice({"m", 1, kMax, 0}).ok());
  EXPECT_EQ(*book_.AvailableBytes("m"), 0);
  EXPECT_EQ(book_.ProcessDied("p"), kMax);
  EXPECT_EQ(*book_.AvailableBytes("m"), 0);
}

TEST_F(LeaseBookTest, IdsUpToTheirLimitAndNotPastIt) {
  const std::string longest(LeaseBook::kMaxIdBytes, 'i');
  const std::string too_long = longest + "i";
  EXPECT_TRUE(
      book_.Reserve({longest, longest, "d", longest, longest, 1}, At(0)).ok());
  const auto refused = [&](const LeaseBook::ReserveRequest& request) {
    return absl::IsInvalidArgument(book_.Reserve(request, At(0)).status());
  };
  EXPECT_TRUE(refused({too_long, "l", "d", "h", "", 1}));
  EXPECT_TRUE(refused({"", "l", "d", "h", "", 1}));
  EXPECT_TRUE(refused({"q1", too_long, "d", "h", "", 1}));
  EXPECT_TRUE(refused({"q2", "", "d", "h", "", 1}));
  EXPECT_TRUE(refused({"q3", "l", "d", too_long, "", 1}));
  EXPECT_TRUE(refused({"q4", "l", "d", "", "", 1}));
  EXPECT_TRUE(refused({"q5", "l", "d", "h", too_long, 1}));
  EXPECT_TRUE(refused({"q6", "l", too_long, "h", "", 1}));
  EXPECT_TRUE(refused({"q7", "l", "d", "h", "", 0}));
  EXPECT_TRUE(refused({"q8", "l", "d", "h", "", -1}));
}

TEST_F(LeaseBookTest, DevicesThatMakeNoSenseAreRefused) {
  const auto refused = [&](const BookedDevice& device) {
    return absl::IsInvalidArgument(book_.RegisterDevice(device).status());
  };
  EXPECT_TRUE(refused({"", 1, 0, std::nullopt}));
  EXPECT_TRUE(refused({std::string(257, 'd'), 1, 0, std::nullopt}));
  EXPECT_TRUE(refused({"x", 0, 0, std::nullopt}));
  EXPECT_TRUE(refused({"x", 1, -1, std::nullopt}));
  EXPECT_TRUE(refused({"x", 1, 0, -1}));
  EXPECT_EQ(book_.Devices().size(), 1u);
}

TEST(LeaseBookListsTest, LeasesOfADeviceAndOfAProcess) {
  LeaseBook book;
  const auto ids = [](const std::vector<Lease>& leases) {
    std::vector<std::string> found;
    for (const Lease& lease : leases) found.push_back(lease.id);
    return found;
  };
  using Ids = std::vector<std::string>;
  for (const char* device : {"d", "e"}) {
    ASSERT_TRUE(book.RegisterDevice({device, 1 << 30, 0, std::nullopt}).ok());
  }
  const auto reserve = [&](const std::string& id, const std::string& device,
                           const std::string& process) {
    return book.Reserve({"r" + id, id, device, "h", "m", 1, process}, At(0))
        ->epoch;
  };
  reserve("c", "d", "p");
  const int64_t b = reserve("b", "d", "q");
  reserve("a", "e", "p");
  reserve("n", "d", "");
  EXPECT_EQ(ids(book.LeasesOn("d")), (Ids{"b", "c", "n"}));
  EXPECT_EQ(ids(book.LeasesOn("x")), Ids());
  EXPECT_EQ(ids(book.LeasesOf("p")), (Ids{"a", "c"}));
  EXPECT_EQ(ids(book.LeasesOf("x")), Ids());
  ASSERT_TRUE(book.Release("b", b).ok());
  EXPECT_EQ(ids(book.LeasesOn("d")), (Ids{"c", "n"}));
  EXPECT_EQ(ids(book.LeasesOf("q")), Ids());
  EXPECT_EQ(book.ProcessDied("p"), 2);
  EXPECT_EQ(ids(book.Leases()), Ids{"n"});
}

TEST(LeaseBookLimitsTest, LeasesAndRepliesUpToTheirLimits) {
  LeaseBook book;
  ASSERT_TRUE(book.RegisterDevice({"d", 1 << 30, 0, std::nullopt}).ok());
  const auto reserve = [&](int64_t i) {
    return book.Reserve(
        {absl::StrCat("r", i), absl::StrCat("l", i), "d", "h", "", 1},
        absl::InfinitePast());
  };
  for (int64_t i = 0; i < LeaseBook::kMaxLeases; ++i) {
    ASSERT_TRUE(reserve(i).ok());
  }
  // The first reply is still known; one more request makes the book forget it.
  EXPECT_TRUE(reserve(0).ok());
  EXPECT_TRUE(
      absl::IsResourceExhausted(reserve(LeaseBook::kMaxLeases).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(reserve(0).status()));
  EXPECT_EQ(*book.HeldBytes("d"), LeaseBook::kMaxLeases);
}

}  // namespace
}  // namespace plimsoll::planner
