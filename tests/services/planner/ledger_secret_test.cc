// Secrets of leases over restarts of the planner, with and without its journal.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "services/planner/ledger.h"
#include "services/wire/to_proto.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kWholeDevice = 1'000;
constexpr char kHoldersSecret[] = "a secret of a test";
constexpr char kStrangersSecret[] = "a secret of another";

class LedgerSecretTest : public ::testing::Test {
 protected:
  LedgerSecretTest() { Start(); }

  // Starts a planner's process; a new one ends the one before.
  void Start() {
    ledger_.reset();
    auto journal = Journal::Open(path_, [this] { return now_; });
    ASSERT_TRUE(journal.ok()) << journal.status();
    const bool is_whole = !(*journal)->image().is_partial;
    const int64_t epoch = is_whole ? (*journal)->image().next_epoch : 100;
    ledger_ =
        std::make_unique<Ledger>(LedgerOptions{.clock = [this] { return now_; },
                                               .journal = *std::move(journal),
                                               .is_first = is_first_,
                                               .first_epoch = epoch,
                                               .requires_secrets = is_strict_});
    is_first_ = false;
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = "cpu";
    profile.total_bytes = kWholeDevice;
    profile.free_bytes = kWholeDevice;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    v1::RegisterDeviceResponse response;
    ASSERT_TRUE(ledger_->RegisterDevice(request, response).ok());
  }
  absl::Status Reserve(const std::string& secret,
                       v1::ReserveResponse& reserved) {
    v1::ReserveRequest request;
    request.set_request_id("of " + secret);
    request.set_device_id("cpu");
    request.set_holder("worker");
    request.set_bytes(400);
    request.set_secret(secret);
    return ledger_->Reserve(request, reserved);
  }
  v1::Lease Load(const std::string& secret) {
    v1::ReserveResponse reserved;
    EXPECT_TRUE(Reserve(secret, reserved).ok());
    v1::ConfirmRequest confirm;
    confirm.set_lease_id(reserved.lease().id());
    confirm.set_epoch(reserved.lease().epoch());
    confirm.set_measured_bytes(400);
    confirm.set_secret(secret);
    v1::ConfirmResponse confirmed;
    EXPECT_TRUE(ledger_->Confirm(confirm, confirmed).ok());
    return confirmed.lease();
  }
  absl::Status Present(const v1::Lease& lease, const std::string& secret) {
    return PresentAs("", lease, secret);
  }
  absl::Status PresentAs(const std::string& owner, const v1::Lease& lease,
                         const std::string& secret) {
    v1::RenewRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    request.set_secret(secret);
    request.mutable_presented()->set_device_id("cpu");
    request.mutable_presented()->set_holder("worker");
    request.mutable_presented()->set_bytes(400);
    request.mutable_presented()->set_measured_bytes(400);
    v1::RenewResponse response;
    return ledger_->Renew(request, response, owner);
  }
  absl::Status Release(const v1::Lease& lease, const std::string& secret) {
    return ReleaseAs("", lease, secret);
  }
  absl::Status ReleaseAs(const std::string& owner, const v1::Lease& lease,
                         const std::string& secret) {
    v1::ReleaseRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    request.set_secret(secret);
    v1::ReleaseResponse response;
    return ledger_->Release(request, response, owner);
  }
  // Only `secret` is taken for the lease, until that releases it.
  void ExpectHolder(const v1::Lease& lease, const std::string& secret) {
    for (const char* wrong : {"", kStrangersSecret}) {
      EXPECT_TRUE(absl::IsPermissionDenied(Present(lease, wrong)));
      EXPECT_TRUE(absl::IsPermissionDenied(Release(lease, wrong)));
    }
    EXPECT_TRUE(Present(lease, secret).ok());
    EXPECT_TRUE(Release(lease, secret).ok());
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("leases.db");
  bool is_first_ = true;
  bool is_strict_ = false;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(LedgerSecretTest, ASecretOutlivesARestart) {
  const v1::Lease lease = Load(kHoldersSecret);
  Start();
  ExpectHolder(lease, kHoldersSecret);
}

TEST_F(LedgerSecretTest, ALostJournalTakesTheSecretOfWhoPresentsTheLease) {
  const v1::Lease lease = Load(kHoldersSecret);
  ledger_.reset();
  std::filesystem::remove(path_);
  Start();
  ASSERT_TRUE(Present(lease, kHoldersSecret).ok());
  ExpectHolder(lease, kHoldersSecret);
}

TEST_F(LedgerSecretTest, AJournalWithoutSecretsKeepsToTheOldRule) {
  const v1::Lease lease = Load("");
  Start();
  EXPECT_TRUE(
      Present(lease, kHoldersSecret).ok());  // by a worker that has one now
  EXPECT_TRUE(Present(lease, "").ok());
  EXPECT_TRUE(Release(lease, "").ok());
}

TEST_F(LedgerSecretTest, AStrictPlannerGrantsNothingWithoutASecret) {
  const v1::Lease old = Load("");
  is_strict_ = true;
  Start();
  v1::ReserveResponse reserved;
  EXPECT_TRUE(absl::IsPermissionDenied(Reserve("", reserved)));
  EXPECT_TRUE(Reserve(kHoldersSecret, reserved).ok());
  // What is in use already stays counted, and can be given back.
  EXPECT_TRUE(Present(old, "").ok());
  EXPECT_TRUE(Release(old, "").ok());
}

TEST_F(LedgerSecretTest, AWorkerWithAnotherTokenKeepsItsLeases) {
  const v1::Lease lease = Load(kHoldersSecret);
  for (const char* owner : {"token:old", "token:new"}) {
    EXPECT_TRUE(
        absl::IsPermissionDenied(PresentAs(owner, lease, kStrangersSecret)));
    EXPECT_TRUE(PresentAs(owner, lease, kHoldersSecret).ok());
  }
  EXPECT_TRUE(absl::IsPermissionDenied(ReleaseAs("token:new", lease, "")));
  EXPECT_TRUE(ReleaseAs("token:new", lease, kHoldersSecret).ok());
}

TEST_F(LedgerSecretTest, WhatForceTookComesBackByTheSecretOnly) {
  const v1::Lease lease = Load(kHoldersSecret);
  now_ += absl::Hours(1);
  Start();
  now_ += absl::Hours(1);
  v1::ForceReleaseRequest force;
  force.set_lease_id(lease.id());
  force.set_reason("a test");
  v1::ForceReleaseResponse forced;
  ASSERT_TRUE(ledger_->ForceRelease(force, forced, "a test").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Present(lease, kStrangersSecret)));
  EXPECT_TRUE(Present(lease, kHoldersSecret).ok());
  ExpectHolder(lease, kHoldersSecret);
}

}  // namespace
}  // namespace plimsoll::services
