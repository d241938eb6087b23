// Leases that a reading proves gone because of what other holders have.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kBytesOfDevice = 1'000;
constexpr int64_t kBytesOfLease = 300;  // a lease has so many bytes

// Holders on a device. Nobody can watch their processes.
class LeaseBookVouchersTest : public ::testing::Test {
 protected:
  void Register(bool may_swap) {
    ASSERT_TRUE(book_
                    .RegisterDevice({.id = "d",
                                     .total_bytes = kBytesOfDevice,
                                     .measured_free_bytes = kBytesOfDevice,
                                     .may_swap = may_swap})
                    .ok());
  }
  // A holder has all its memory, and says so.
  void Load(const std::string& id, double time, int64_t free_bytes) {
    const auto lease = book_.Reserve(
        {absl::StrCat("r", id), id, "d", "h", "m", kBytesOfLease}, At(time));
    ASSERT_TRUE(lease.ok()) << lease.status();
    epochs_[id] = lease->epoch;
    ASSERT_TRUE(book_.Confirm(id, lease->epoch, kBytesOfLease, At(time)).ok());
    ASSERT_TRUE(book_.ReadFree("d", free_bytes, id, At(time)).ok());
  }
  // It still has it, or, if it does not vouch, it may have given it up.
  void Renew(const std::string& id, double time, int64_t free_bytes) {
    ASSERT_TRUE(book_.Renew(id, epochs_[id], At(time)).ok());
    const std::string voucher = id == without_voucher_ ? "" : id;
    ASSERT_TRUE(book_.ReadFree("d", free_bytes, voucher, At(time)).ok());
  }
  void LoadThree() {
    Load("a", 0, kBytesOfDevice - kBytesOfLease);
    Load("b", 0, kBytesOfDevice - 2 * kBytesOfLease);
    Load("c", 0, kBytesOfDevice - 3 * kBytesOfLease);
  }
  // "b" and "c" speak every 3 s; "a" is silent. Returns when its lease ended,
  // or -1.
  int64_t EndOfA(int64_t free_bytes) {
    for (int64_t time = 3; time <= 90; time += 3) {
      Renew("b", static_cast<double>(time), free_bytes);
      Renew("c", static_cast<double>(time), free_bytes);
      if (*book_.HeldBytes("d") == 2 * kBytesOfLease) return time;
    }
    return -1;
  }

  LeaseBook book_;
  std::map<std::string, int64_t> epochs_;
  std::string without_voucher_;  // the holder that does not vouch, if any
};

TEST_F(LeaseBookVouchersTest, OneOfThreeEqualLeasesIsProvenGone) {
  Register(/*may_swap=*/false);
  LoadThree();
  // The reading of 15 s is the first one by which "a" may be gone. Who speaks
  // at 20 s or later had its memory then.
  EXPECT_EQ(EndOfA(kBytesOfDevice - 2 * kBytesOfLease), 21);
}

TEST_F(LeaseBookVouchersTest, AllMustHaveSpoken) {
  Register(/*may_swap=*/false);
  LoadThree();
  for (const double time : {5, 10, 15}) {
    Renew("b", time, kBytesOfDevice - 2 * kBytesOfLease);
    Renew("c", time, kBytesOfDevice - 2 * kBytesOfLease);
  }
  Renew("b", 20, kBytesOfDevice - 2 * kBytesOfLease);
  EXPECT_EQ(*book_.HeldBytes("d"), 3 * kBytesOfLease);
  Renew("c", 19.999, kBytesOfDevice - 2 * kBytesOfLease);
  EXPECT_EQ(*book_.HeldBytes("d"), 3 * kBytesOfLease);
  Renew("c", 20, kBytesOfDevice - 2 * kBytesOfLease);
  EXPECT_EQ(*book_.HeldBytes("d"), 2 * kBytesOfLease);
}

TEST_F(LeaseBookVouchersTest, WhatMayBeThereStays) {
  Register(/*may_swap=*/false);
  LoadThree();
  EXPECT_EQ(EndOfA(kBytesOfDevice - 3 * kBytesOfLease), -1);
}

TEST_F(LeaseBookVouchersTest, WhoDoesNotVouchMayHaveNothing) {
  Register(/*may_swap=*/false);
  LoadThree();
  without_voucher_ = "c";
  EXPECT_EQ(EndOfA(kBytesOfDevice - 2 * kBytesOfLease), -1);
}

TEST_F(LeaseBookVouchersTest, WhatMayBeSwappedOutIsNotTakenOff) {
  Register(/*may_swap=*/true);
  LoadThree();
  EXPECT_EQ(EndOfA(kBytesOfDevice - 2 * kBytesOfLease), -1);
}

TEST_F(LeaseBookVouchersTest, WhoCameLateMayNotBeInTheReading) {
  Register(/*may_swap=*/false);
  Load("a", 0, kBytesOfDevice - kBytesOfLease);
  Load("b", 0, kBytesOfDevice - 2 * kBytesOfLease);
  Renew("b", 9, kBytesOfDevice - kBytesOfLease);
  // The reading of 15 s may have been on its way since 10 s.
  Load("c", 10.001, kBytesOfDevice - 2 * kBytesOfLease);
  Renew("b", 15, kBytesOfDevice - 2 * kBytesOfLease);
  for (const double time : {20, 25}) {
    Renew("b", time, kBytesOfDevice - 2 * kBytesOfLease);
    Renew("c", time, kBytesOfDevice - 2 * kBytesOfLease);
  }
  EXPECT_EQ(*book_.HeldBytes("d"), 3 * kBytesOfLease);
  for (const double time : {30, 35, 40}) {
    Renew("b", time, kBytesOfDevice - 2 * kBytesOfLease);
    Renew("c", time, kBytesOfDevice - 2 * kBytesOfLease);
  }
  EXPECT_EQ(*book_.HeldBytes("d"), 2 * kBytesOfLease);
}

TEST_F(LeaseBookVouchersTest, WhoComesBackIsTakenIn) {
  Register(/*may_swap=*/false);
  LoadThree();
  ASSERT_EQ(EndOfA(kBytesOfDevice - 2 * kBytesOfLease), 21);
  const Lease claim{.id = "a",
                    .device_id = "d",
                    .holder = "h",
                    .purpose = "m",
                    .bytes = kBytesOfLease,
                    .measured_bytes = kBytesOfLease,
                    .epoch = epochs_["a"]};
  EXPECT_TRUE(book_.Adopt(claim, At(22)).ok());
  EXPECT_EQ(*book_.HeldBytes("d"), 3 * kBytesOfLease);
}

}  // namespace
}  // namespace plimsoll::planner
