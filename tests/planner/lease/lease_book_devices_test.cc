// Devices that come and go, and what shortfalls keep free of them.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kAll = 1'000;

// What bytes are reserved for, and where.
struct Purpose {
  std::string device = "d";
  std::string purpose = "m";
};

class LeaseBookDevicesTest : public ::testing::Test {
 protected:
  // Returns who left for it.
  std::string Register(const std::string& id) { return RegisterBy("", id); }
  std::string RegisterBy(const std::string& by, const std::string& id) {
    const auto evicted = book_.RegisterDevice({id, kAll, 0, std::nullopt}, by);
    EXPECT_TRUE(evicted.ok()) << evicted.status();
    return evicted.value_or("?");
  }
  // Registers "0", "1", ... up to the limit.
  void Fill() {
    for (int64_t i = 0; i < LeaseBook::kMaxDevices; ++i) {
      ASSERT_EQ(Register(absl::StrCat(i)), "");
    }
  }
  int64_t Reserve(const std::string& id, int64_t bytes) {
    return ReserveFor({}, id, bytes);
  }
  int64_t ReserveFor(const Purpose& why, const std::string& id, int64_t bytes) {
    const auto lease = book_.Reserve({absl::StrCat("r", ++n_requests_), id,
                                      why.device, "h", why.purpose, bytes, "p"},
                                     At(0));
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease->epoch;
  }
  // A load that fails for want of bytes.
  void Fail(int64_t bytes, int64_t shortfall) {
    FailFor("m", bytes, shortfall);
  }
  void FailFor(const std::string& purpose, int64_t bytes, int64_t shortfall) {
    const int64_t epoch = ReserveFor({.purpose = purpose}, "failing", bytes);
    ASSERT_TRUE(book_.Release("failing", epoch, shortfall).ok());
  }
  int64_t Available() { return AvailableFor("m"); }
  int64_t AvailableFor(const std::string& purpose) {
    return *book_.AvailableBytes("d", purpose);
  }

  LeaseBook book_;
  int n_requests_ = 0;
};

TEST_F(LeaseBookDevicesTest, AtTheLimitTheLongestUnheardOfLeaves) {
  Fill();
  EXPECT_EQ(Register("0"), "");
  ASSERT_TRUE(book_.ReadFree("1", kAll, "", At(0)).ok());
  EXPECT_EQ(Register("more"), "2");
  EXPECT_FALSE(book_.IsRegistered("2"));
  EXPECT_TRUE(book_.IsRegistered("more"));
  EXPECT_EQ(static_cast<int64_t>(book_.Devices().size()),
            LeaseBook::kMaxDevices);
  EXPECT_EQ(Register("2"), "3");
}

TEST_F(LeaseBookDevicesTest, ADeviceWithLeasesNeverLeaves) {
  Fill();
  const int64_t epoch = ReserveFor({.device = "0"}, "a", 1);
  EXPECT_EQ(Register("more"), "1");
  ASSERT_TRUE(book_.Release("a", epoch).ok());
  EXPECT_EQ(Register("still more"), "0");
  // The released lease is remembered without it.
  EXPECT_TRUE(book_.Release("a", epoch).ok());
}

TEST_F(LeaseBookDevicesTest, HeldDevicesUpToTheLimitAndNotPastIt) {
  Fill();
  for (int64_t i = 0; i < LeaseBook::kMaxDevices; ++i) {
    ReserveFor({.device = absl::StrCat(i)}, absl::StrCat("l", i), 1);
  }
  const absl::Status full =
      book_.RegisterDevice({"more", 1, 0, std::nullopt}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(Register("7"), "");
}

TEST_F(LeaseBookDevicesTest, UnhealthyDevicesLeaveLast) {
  Fill();
  ASSERT_TRUE(book_.MarkUnhealthy("0", "h").ok());
  EXPECT_EQ(Register("more"), "1");
}

TEST_F(LeaseBookDevicesTest, ADeviceCanBeUnregisteredUnlessHeld) {
  Register("d");
  const int64_t epoch = Reserve("a", 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(book_.UnregisterDevice("d")));
  ASSERT_TRUE(book_.Release("a", epoch).ok());
  EXPECT_TRUE(book_.UnregisterDevice("d").ok());
  EXPECT_FALSE(book_.IsRegistered("d"));
  EXPECT_TRUE(absl::IsNotFound(book_.UnregisterDevice("d")));
  Register("d");
  EXPECT_EQ(Available(), kAll);
}

TEST_F(LeaseBookDevicesTest, LeavingMakesNoDeviceHealthy) {
  Register("d");
  ASSERT_TRUE(book_.MarkUnhealthy("d", "broke it").ok());
  ASSERT_TRUE(book_.UnregisterDevice("d").ok());
  EXPECT_TRUE(book_.Devices().empty());
  RegisterBy("broke it", "d");
  EXPECT_FALSE(book_.IsHealthy("d"));
  RegisterBy("another", "d");
  EXPECT_TRUE(book_.IsHealthy("d"));
}

TEST_F(LeaseBookDevicesTest, AShortfallIsKeptFreeForItsPurpose) {
  Register("d");
  Fail(500, 100);
  Fail(500, 50);
  EXPECT_EQ(Available(), 850);
  EXPECT_EQ(AvailableFor("other"), kAll);
  const auto refused =
      book_.Reserve({"r", "a", "d", "h", "m", 851, "p"}, At(0));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  Reserve("b", 850);
}

TEST_F(LeaseBookDevicesTest, AShortfallCountsOnceForALease) {
  Register("d");
  const int64_t epoch = Reserve("a", 500);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(book_.Release("a", epoch, 100).ok());
    EXPECT_EQ(Available(), 900);
  }
}

TEST_F(LeaseBookDevicesTest, AShortfallIsAtMostItsLease) {
  Register("d");
  Fail(1, kMax);
  EXPECT_EQ(Available(), kAll - 1);
  Fail(1, -1);
  Fail(1, 0);
  EXPECT_EQ(Available(), kAll - 1);
  FailFor("", 1, 1);
  EXPECT_EQ(AvailableFor(""), kAll);
}

TEST_F(LeaseBookDevicesTest, ShortfallsUpToTheirShareAndNotPastIt) {
  Register("d");
  Fail(250, 250);
  EXPECT_EQ(Available(), kAll - kAll / LeaseBook::kMarginDivisor);
  Fail(1, 1);
  EXPECT_EQ(Available(), kAll - kAll / LeaseBook::kMarginDivisor);
  // On a device that has shrunk as well.
  ASSERT_TRUE(book_.RegisterDevice({"d", 400, 0, std::nullopt}).ok());
  Fail(1, 1);
  EXPECT_EQ(Available(), 300);
}

TEST_F(LeaseBookDevicesTest, LoadsThatSucceedTakeAShortfallBack) {
  Register("d");
  Fail(80, 80);
  int64_t epoch = Reserve("a", 1);
  for (int i = 0; i < 2; ++i) {  // one load, however often it is confirmed
    ASSERT_TRUE(book_.Confirm("a", epoch, 1, At(0)).ok());
    EXPECT_EQ(Available(), kAll - 1 - 70);
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(book_.Release("a", epoch).ok());
    epoch = Reserve("a", 1);
    ASSERT_TRUE(book_.Confirm("a", epoch, 1, At(0)).ok());
  }
  EXPECT_EQ(Available(), kAll - 1);
}

TEST_F(LeaseBookDevicesTest, PurposesUpToTheirLimitAndNotPastIt) {
  Register("d");
  for (int64_t i = 0; i < LeaseBook::kMaxMarginsPerDevice; ++i) {
    FailFor(absl::StrCat(i), 10, 10);
  }
  FailFor("more", 10, 10);
  EXPECT_EQ(AvailableFor("more"), kAll);
  FailFor("1", 10, 10);
  EXPECT_EQ(AvailableFor("1"), kAll - 20);
}

TEST_F(LeaseBookDevicesTest, PoliciesChangeAndTakeNothingAway) {
  Register("d");
  Reserve("a", 600);
  const auto set = [this](int64_t headroom, int64_t limit) {
    ASSERT_TRUE(book_.SetPolicies("d", headroom, limit).ok());
  };
  set(400, kAll);
  EXPECT_EQ(Available(), 0);
  set(100, kAll);
  EXPECT_EQ(Available(), 300);
  set(100, 750);
  EXPECT_EQ(Available(), 50);
  set(0, 0);
  EXPECT_EQ(Available(), 0);
  set(kAll + 1, kAll);
  EXPECT_EQ(Available(), 0);
  EXPECT_EQ(*book_.HeldBytes("d"), 600);
  set(0, kAll + 1);
  EXPECT_EQ(Available(), 400) << "a limit adds nothing";
  EXPECT_TRUE(absl::IsInvalidArgument(book_.SetPolicies("d", -1, kAll)));
  EXPECT_TRUE(absl::IsInvalidArgument(book_.SetPolicies("d", 0, -1)));
  EXPECT_TRUE(absl::IsNotFound(book_.SetPolicies("e", 1, kAll)));
}

// What is used is the device's total without what is free, whatever the limit.
TEST_F(LeaseBookDevicesTest, NoLimitLetsAReadingFreeWhatIsStillUsed) {
  ASSERT_TRUE(book_.RegisterDevice({"d", kAll, 0, kAll}).ok());
  const int64_t epoch = Reserve("a", 600);
  ASSERT_TRUE(book_.Confirm("a", epoch, 600, At(0)).ok());
  book_.Expire(At(1'000'000));
  ASSERT_TRUE(book_.SetPolicies("d", 0, 500).ok());
  ASSERT_TRUE(book_.ReadFree("d", 400, "", At(1'000'000)).ok());
  EXPECT_EQ(*book_.HeldBytes("d"), 600) << "600 of 1,000 bytes are used";
  ASSERT_TRUE(book_.ReadFree("d", kAll, "", At(1'000'000)).ok());
  EXPECT_EQ(*book_.HeldBytes("d"), 0);
  EXPECT_EQ(Available(), 500);
}

}  // namespace
}  // namespace plimsoll::planner
