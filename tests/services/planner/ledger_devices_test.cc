// Which size of a device counts: no worker gets more by what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "planner/layout/device_profile.h"
#include "services/planner/ledger.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LedgerDevicesTest : public ::testing::Test {
 protected:
  LedgerDevicesTest() { Start({}); }

  // Starts a planner that knows nothing.
  void Start(const DeviceBytes& sizes) {
    ledger_ = std::make_unique<Ledger>(
        LedgerOptions{.clock = [this] { return now_; }, .sizes = sizes});
  }
  // Returns the size that counts after a worker named one; nothing is used.
  int64_t Say(const std::string& holder, int64_t bytes) {
    return SayAs("", holder, bytes);
  }
  int64_t SayAs(const std::string& owner, const std::string& holder,
                int64_t bytes) {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = "gpu";
    profile.total_bytes = bytes;
    profile.free_bytes = bytes;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    request.set_holder(holder);
    v1::RegisterDeviceResponse response;
    EXPECT_TRUE(ledger_->RegisterDevice(request, response, owner).ok());
    EXPECT_LE(response.device().profile().free_bytes(),
              response.device().profile().total_bytes());
    return static_cast<int64_t>(response.device().profile().total_bytes());
  }
  v1::Lease Reserve(const std::string& holder, int64_t bytes) {
    v1::ReserveRequest request;
    request.set_request_id(holder);
    request.set_device_id("gpu");
    request.set_holder(holder);
    request.set_bytes(ToUint64(bytes));
    v1::ReserveResponse response;
    const absl::Status status = ledger_->Reserve(request, response);
    EXPECT_TRUE(status.ok()) << status;
    return response.lease();
  }
  v1::Device Listed() {
    v1::ListDevicesResponse response;
    EXPECT_TRUE(ledger_->ListDevices(response).ok());
    return response.devices(0);
  }
  uint64_t Available() { return Listed().available_bytes(); }

  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(LedgerDevicesTest, GrantedAndFreeAreNeverMoreThanTheSmallestSize) {
  EXPECT_EQ(Say("honest", 1'000), 1'000);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Say("liar", 5'000), 1'000);
  EXPECT_EQ(Say("liar", 5'000), 1'000);  // the second time is no news
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("more memory than counts"),
                         HasSubstr("device=gpu"), HasSubstr("holder=liar"),
                         HasSubstr("said_bytes=5000 bytes=1000")));
  EXPECT_EQ(log.find("more memory"), log.rfind("more memory"));
  EXPECT_EQ(Available(), 1'000u);
  Reserve("liar", 700);
  EXPECT_EQ(Available(), 300u);
  Say("liar", 9'000);
  EXPECT_EQ(Listed().held_bytes() + Available(), 1'000u);
}

TEST_F(LedgerDevicesTest, ASmallerSizeCountsAtOnce) {
  EXPECT_EQ(Say("liar", 5'000), 5'000);
  Reserve("liar", 1'500);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Say("honest", 1'000), 1'000);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("a device is smaller now"),
                    HasSubstr("holder=honest bytes_before=5000 bytes=1000")));
  EXPECT_EQ(Available(), 0u);
  EXPECT_EQ(Say("honest", 2'000), 2'000) << "its own word it may correct";
  EXPECT_EQ(Available(), 500u);
}

TEST_F(LedgerDevicesTest, AWorkerThatIsGoneStandsForNoSize) {
  Say("old", 1'000);
  now_ += planner::LeaseTimes::kDefaultTtl;
  EXPECT_EQ(Say("new", 2'000), 1'000);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Say("new", 2'000), 2'000);
}

TEST_F(LedgerDevicesTest, AWorkerWithALeaseStandsForItsSize) {
  Say("busy", 1'000);
  const v1::Lease lease = Reserve("busy", 600);
  v1::ConfirmRequest confirm;
  confirm.set_lease_id(lease.id());
  confirm.set_epoch(lease.epoch());
  confirm.set_measured_bytes(600);
  v1::ConfirmResponse confirmed;
  ASSERT_TRUE(ledger_->Confirm(confirm, confirmed).ok());
  now_ += absl::Hours(1);
  v1::RenewRequest renew;
  renew.set_lease_id(lease.id());
  renew.set_epoch(lease.epoch());
  v1::RenewResponse renewed;
  ASSERT_TRUE(ledger_->Renew(renew, renewed).ok());
  EXPECT_EQ(Say("liar", 5'000), 1'000);
  v1::ReleaseRequest release;
  release.set_lease_id(lease.id());
  release.set_epoch(lease.epoch());
  v1::ReleaseResponse released;
  ASSERT_TRUE(ledger_->Release(release, released).ok());
  EXPECT_EQ(Say("liar", 5'000), 5'000);
}

TEST_F(LedgerDevicesTest, AnOwnersWorkersAreNotThoseOfAnother) {
  EXPECT_EQ(SayAs("dns:a", "host/1", 1'000), 1'000);
  EXPECT_EQ(SayAs("dns:b", "host/1", 5'000), 1'000);
}

// A planner that was started again has heard the liar first.
TEST_F(LedgerDevicesTest, ARenewalAsksForASizeThatIsNotKnown) {
  Say("busy", 1'000);
  const v1::Lease lease = Reserve("busy", 600);
  Start({});
  EXPECT_EQ(Say("liar", 5'000), 5'000);
  v1::RenewRequest request;
  request.set_lease_id(lease.id());
  request.set_epoch(lease.epoch());
  request.mutable_presented()->set_device_id("gpu");
  request.mutable_presented()->set_holder("busy");
  request.mutable_presented()->set_bytes(600);
  request.mutable_presented()->set_measured_bytes(600);
  v1::RenewResponse response;
  Reserve("epochs grow", 1);
  ASSERT_TRUE(ledger_->Renew(request, response).ok());
  EXPECT_TRUE(response.device_unknown());
  EXPECT_EQ(Say("busy", 1'000), 1'000);
  ASSERT_TRUE(ledger_->Renew(request, response).ok());
  EXPECT_FALSE(response.device_unknown());
}

TEST_F(LedgerDevicesTest, TheSettingsFixTheSize) {
  Start({.devices = {{"gpu", 800}}});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Say("a", 1'000), 800);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("of --device-memory"));
  EXPECT_EQ(Available(), 800u);
  EXPECT_EQ(ledger_->FindDevice("gpu")->profile.total_bytes, 800);
  EXPECT_EQ(Say("b", 500), 500) << "a worker that says less is believed";
}

TEST_F(LedgerDevicesTest, TheSettingsChangeTheSizeOfDevicesThatAreThere) {
  Say("a", 1'000);
  Reserve("a", 600);
  ledger_->SetPolicies({}, {.devices = {{"gpu", 700}}});
  EXPECT_EQ(Listed().profile().total_bytes(), 700u);
  EXPECT_EQ(Available(), 100u);
  ledger_->SetPolicies({}, {.devices = {{"gpu", 500}}});
  EXPECT_EQ(Listed().held_bytes(), 600u) << "nothing is taken away";
  EXPECT_EQ(Available(), 0u);
  ledger_->SetPolicies({.others = 50}, {.others = 2'000});
  EXPECT_EQ(Listed().profile().total_bytes(), 1'000u);
  EXPECT_EQ(Available(), 350u);
}

}  // namespace
}  // namespace plimsoll::services
