// The ledger over restarts, deaths of holders and failing journals.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/planner/ledger.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "tests/sanitized.h"
#include "tests/services/planner/faulty_vfs.h"
#include "tests/services/planner/sleeper.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;
using testing::SetVfsFaults;
using testing::Sleeper;

constexpr int64_t kTotal = 1'000;

class LedgerRestartTest : public ::testing::Test {
 protected:
  LedgerRestartTest() {
    SetVfsFaults({});
    Start({.is_first = true});
  }

  // A planner's process. A new one ends the one before.
  struct Process {
    bool is_first = false;
    int64_t first_epoch = 1;
  };
  void Start(const Process& process) {
    ledger_.reset();
    auto journal = Journal::Open(
        path_, [this] { return now_; }, testing::kFaultyVfs);
    ASSERT_TRUE(journal.ok()) << journal.status();
    int64_t first_epoch = process.first_epoch;
    if (!(*journal)->image().is_partial) {
      first_epoch = (*journal)->image().next_epoch;
    }
    ledger_ =
        std::make_unique<Ledger>(LedgerOptions{.clock = [this] { return now_; },
                                               .journal = *std::move(journal),
                                               .is_first = process.is_first,
                                               .first_epoch = first_epoch});
  }

  struct Device {
    int64_t free_bytes = kTotal;
    std::string holder = "worker";
    bool is_unhealthy = false;
  };
  absl::Status Register(const Device& device) {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = "cpu";
    profile.total_bytes = kTotal;
    profile.free_bytes = device.free_bytes;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    request.set_holder(device.holder);
    request.set_unhealthy(device.is_unhealthy);
    v1::RegisterDeviceResponse response;
    return ledger_->RegisterDevice(request, response);
  }

  absl::StatusOr<v1::Lease> Reserve(const std::string& id, uint64_t bytes) {
    return ReserveBy(std::nullopt, id, bytes);
  }
  absl::StatusOr<v1::Lease> ReserveBy(
      const std::optional<v1::ProcessIdentity>& process, const std::string& id,
      uint64_t bytes) {
    v1::ReserveRequest request;
    request.set_request_id(id);
    request.set_device_id("cpu");
    request.set_holder("worker");
    request.set_purpose("model");
    request.set_bytes(bytes);
    if (process.has_value()) *request.mutable_process() = *process;
    v1::ReserveResponse response;
    const absl::Status status = ledger_->Reserve(request, response);
    if (!status.ok()) return status;
    return response.lease();
  }

  absl::Status Confirm(const v1::Lease& lease) {
    v1::ConfirmRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    request.set_measured_bytes(lease.bytes());
    request.set_device_free_bytes(kTotal - lease.bytes());
    v1::ConfirmResponse response;
    return ledger_->Confirm(request, response);
  }

  absl::Status Release(const v1::Lease& lease, uint64_t shortfall) {
    v1::ReleaseRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    if (shortfall > 0) request.set_shortfall_bytes(shortfall);
    v1::ReleaseResponse response;
    return ledger_->Release(request, response);
  }

  absl::StatusOr<v1::RenewResponse> Renew(const v1::Lease& lease,
                                          bool is_presented) {
    v1::RenewRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    if (is_presented) {
      request.mutable_presented()->set_device_id(lease.device_id());
      request.mutable_presented()->set_holder(lease.holder());
      request.mutable_presented()->set_bytes(lease.bytes());
      request.mutable_presented()->set_measured_bytes(lease.bytes());
      if (lease.has_process()) {
        *request.mutable_presented()->mutable_process() = lease.process();
      }
      request.set_device_free_bytes(kTotal - lease.bytes());
    }
    v1::RenewResponse response;
    const absl::Status status = ledger_->Renew(request, response);
    if (!status.ok()) return status;
    return response;
  }

  v1::ListLeasesResponse List() {
    v1::ListLeasesResponse response;
    EXPECT_TRUE(ledger_->ListLeases({}, response).ok());
    return response;
  }

  // Death is seen by another thread; the test's own time limit bounds this.
  void AwaitNothingHeld() {
    while (List().leases_size() > 0) std::this_thread::yield();
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("leases.db");
  std::unique_ptr<Ledger> ledger_;
};

v1::ErrorReason ReasonOf(const absl::Status& status) {
  return DetailsOf(status).reason;
}

TEST_F(LedgerRestartTest, LeasesEpochsAndRepliesOutliveARestart) {
  ASSERT_TRUE(Register({}).ok());
  const auto loaded = Reserve("a", 400);
  const auto reserved = Reserve("b", 100);
  ASSERT_TRUE(loaded.ok() && reserved.ok());
  ASSERT_TRUE(Confirm(*loaded).ok());
  Start({});
  ASSERT_EQ(List().leases_size(), 2);
  EXPECT_EQ(List().leases(0).state(), v1::LEASE_STATE_SUSPECT);
  EXPECT_FALSE(List().has_recovery_left());
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_GOOD);
  // Nobody has registered the device yet.
  EXPECT_EQ(ReasonOf(Reserve("c", 1).status()),
            v1::ERROR_REASON_DEVICE_NOT_FOUND);
  const auto renewed = Renew(*loaded, /*is_presented=*/true);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_TRUE(renewed->device_unknown());
  EXPECT_EQ(renewed->lease().epoch(), loaded->epoch());
  EXPECT_EQ(renewed->lease().state(), v1::LEASE_STATE_CONFIRMED);
  ASSERT_TRUE(Register({.free_bytes = kTotal - 400}).ok());
  EXPECT_FALSE(Renew(*loaded, true)->device_unknown());
  EXPECT_EQ(Reserve("b", 100)->id(), reserved->id());
  EXPECT_EQ(Reserve("d", 501).status().code(), Code::kResourceExhausted);
  const auto next = Reserve("e", 500);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_GT(next->epoch(), reserved->epoch());
}

// Every lease takes its part of the device's 1,000 bytes.
TEST_F(LedgerRestartTest, ManyRestartsLoseNothing) {
  constexpr int kRestarts = plimsoll::testing::kIsLong ? 1'000 : 100;
  std::vector<v1::Lease> leases;
  for (int i = 0; i < kRestarts; ++i) {
    ASSERT_TRUE(Register({}).ok());
    const auto lease = Reserve(std::to_string(i), 1'000 / kRestarts);
    ASSERT_TRUE(lease.ok()) << lease.status();
    if (!leases.empty()) {
      EXPECT_GT(lease->epoch(), leases.back().epoch());
    }
    leases.push_back(*lease);
    Start({});
  }
  ASSERT_TRUE(Register({}).ok());
  EXPECT_EQ(List().leases_size(), kRestarts);
  EXPECT_EQ(Reserve("more", 1).status().code(), Code::kResourceExhausted);
  for (const v1::Lease& lease : leases) EXPECT_TRUE(Renew(lease, false).ok());
}

TEST_F(LedgerRestartTest, ALostJournalMeansRecoveryAndAdoption) {
  ASSERT_TRUE(Register({}).ok());
  const auto lease = Reserve("a", 600);
  ASSERT_TRUE(Confirm(*lease).ok());
  ledger_.reset();
  std::filesystem::remove(path_);
  Start({.first_epoch = 1'000});
  ASSERT_TRUE(Register({.free_bytes = 400}).ok());
  const absl::Status refused = Reserve("b", 1).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), v1::ERROR_REASON_PLANNER_RECOVERING);
  EXPECT_EQ(DetailsOf(refused).retry_after, planner::LeaseTimes::kDefaultTtl);
  EXPECT_EQ(List().recovery_left().seconds(), 10);
  // Without its particulars a forgotten lease is unknown.
  EXPECT_EQ(ReasonOf(Renew(*lease, false).status()),
            v1::ERROR_REASON_LEASE_NOT_FOUND);
  const auto adopted = Renew(*lease, /*is_presented=*/true);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(adopted->lease().id(), lease->id());
  EXPECT_EQ(adopted->lease().epoch(), lease->epoch());
  now_ += planner::LeaseTimes::kDefaultTtl;
  EXPECT_FALSE(List().has_recovery_left());
  EXPECT_EQ(Reserve("c", 401).status().code(), Code::kResourceExhausted);
  const auto rest = Reserve("d", 400);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_GE(rest->epoch(), 1'000u);
  // What was adopted is in the new journal too.
  Start({});
  EXPECT_EQ(List().leases_size(), 2);
}

TEST_F(LedgerRestartTest, AGarbageJournalMeansRecovery) {
  ledger_.reset();
  std::filesystem::resize_file(path_, 5'000);
  Start({});
  ASSERT_TRUE(Register({}).ok());
  EXPECT_EQ(ReasonOf(Reserve("a", 1).status()),
            v1::ERROR_REASON_PLANNER_RECOVERING);
}

TEST_F(LedgerRestartTest, WithoutAJournalEveryStartIsARecovery) {
  ledger_ = std::make_unique<Ledger>(
      LedgerOptions{.clock = [this] { return now_; }, .is_first = false});
  ASSERT_TRUE(Register({}).ok());
  EXPECT_EQ(ReasonOf(Reserve("a", 1).status()),
            v1::ERROR_REASON_PLANNER_RECOVERING);
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_NONE);
  now_ += planner::LeaseTimes::kDefaultTtl;
  EXPECT_TRUE(Reserve("a", 1).ok());
}

TEST_F(LedgerRestartTest, AFailingJournalStopsGrantsAndNothingElse) {
  ASSERT_TRUE(Register({}).ok());
  const auto a = Reserve("a", 100);
  const auto b = Reserve("b", 100);
  ASSERT_TRUE(a.ok() && b.ok());
  SetVfsFaults({.at = 1, .sync_code = SQLITE_IOERR_FSYNC});
  const absl::Status refused = Reserve("c", 100).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), v1::ERROR_REASON_JOURNAL_FAILED);
  EXPECT_TRUE(DetailsOf(refused).retry_after.has_value());
  EXPECT_TRUE(Confirm(*a).ok());
  EXPECT_TRUE(Renew(*a, true).ok());
  EXPECT_TRUE(Release(*b, /*shortfall=*/0).ok());
  EXPECT_EQ(List().leases_size(), 1);
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_FAILED);
  SetVfsFaults({});
  EXPECT_EQ(ReasonOf(Reserve("d", 1).status()),
            v1::ERROR_REASON_JOURNAL_FAILED);
}

TEST_F(LedgerRestartTest, ATakenOverLedgerGrantsAndProlongsNothing) {
  ASSERT_TRUE(Register({}).ok());
  const auto a = Reserve("a", 100);
  const auto b = Reserve("b", 100);
  ASSERT_TRUE(a.ok() && b.ok() && Confirm(*a).ok());
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "UPDATE meta SET boot_nonce='another'", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(other);
  EXPECT_EQ(Renew(*a, true).status().code(), Code::kUnavailable);
  EXPECT_EQ(Renew(*a, false).status().code(), Code::kUnavailable);
  EXPECT_EQ(Confirm(*b).code(), Code::kUnavailable);
  EXPECT_EQ(Release(*b, /*shortfall=*/0).code(), Code::kUnavailable);
  EXPECT_EQ(Reserve("c", 1).status().code(), Code::kUnavailable);
}

TEST_F(LedgerRestartTest, AKilledHoldersBytesAreFree) {
  ASSERT_TRUE(Register({}).ok());
  Sleeper sleeper;
  const v1::ProcessIdentity process = sleeper.Identity();
  const auto lease = ReserveBy(process, "a", kTotal);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->watched_pid(), process.pid());
  EXPECT_EQ(Reserve("b", 1).status().code(), Code::kResourceExhausted);
  sleeper.Kill();
  AwaitNothingHeld();
  EXPECT_TRUE(Reserve("c", kTotal).ok());
}

TEST_F(LedgerRestartTest, AHolderThatIsStoppedIsNotRobbed) {
  ASSERT_TRUE(Register({}).ok());
  Sleeper reserving;
  Sleeper loaded;
  const v1::ProcessIdentity first = reserving.Identity();
  const v1::ProcessIdentity second = loaded.Identity();
  const auto reserved = ReserveBy(first, "a", 600);
  const auto confirmed = ReserveBy(second, "b", 400);
  ASSERT_TRUE(reserved.ok() && Confirm(*confirmed).ok());
  reserving.Stop();
  loaded.Stop();
  for (int i = 0; i < 3; ++i) {
    now_ += absl::Minutes(1);
    ASSERT_TRUE(Register({.holder = "robber"}).ok());
    EXPECT_EQ(Reserve(std::to_string(i), 1).status().code(),
              Code::kResourceExhausted);
    if (i == 1) Start({});  // a new planner knows it too
  }
  reserving.Kill();
  loaded.Kill();
  AwaitNothingHeld();
  EXPECT_TRUE(Reserve("c", kTotal).ok());
}

TEST_F(LedgerRestartTest, AHolderThatDiedMeanwhileHoldsNothing) {
  ASSERT_TRUE(Register({}).ok());
  Sleeper dying;
  Sleeper living;
  const v1::ProcessIdentity first = dying.Identity();
  const v1::ProcessIdentity second = living.Identity();
  ASSERT_TRUE(ReserveBy(first, "a", 400).ok());
  ASSERT_TRUE(ReserveBy(second, "b", 500).ok());
  ledger_.reset();
  dying.Kill();
  Start({});
  ASSERT_EQ(List().leases_size(), 1);
  EXPECT_EQ(List().leases(0).watched_pid(), second.pid());
  living.Kill();
  AwaitNothingHeld();
}

// There are only so many that can be watched.
TEST_F(LedgerRestartTest, WhoHoldsNothingIsNotWatched) {
  ASSERT_TRUE(Register({}).ok());
  const int before = testing::CountPidfds();
  const auto await_watched = [before](int n_watched) {
    while (testing::CountPidfds() != before + n_watched) {
      std::this_thread::yield();
    }
  };
  Sleeper holding;
  Sleeper refused;
  const v1::ProcessIdentity first = holding.Identity();
  const v1::ProcessIdentity second = refused.Identity();
  const auto lease = ReserveBy(first, "a", 600);
  ASSERT_TRUE(lease.ok()) << lease.status();
  if (testing::CountPidfds() == before) GTEST_SKIP() << "there are no pidfds";
  EXPECT_FALSE(ReserveBy(second, "b", 401).ok());
  await_watched(1);
  EXPECT_FALSE(ReserveBy(first, "c", 401).ok()) << "it still holds the other";
  EXPECT_EQ(List().leases(0).watched_pid(), first.pid());
  v1::Lease unknown = *lease;
  unknown.set_id("unknown");
  unknown.set_bytes(2 * kTotal);
  *unknown.mutable_process() = second;
  EXPECT_FALSE(Renew(unknown, /*is_presented=*/true).ok());
  await_watched(1);
  ASSERT_TRUE(Release(*lease, /*shortfall=*/0).ok());
  await_watched(0);
  // The first reply again, of a lease that has ended.
  EXPECT_EQ(ReserveBy(first, "a", 600)->id(), lease->id());
  await_watched(0);
  // Who was forgotten is watched again as soon as it holds something.
  ASSERT_TRUE(ReserveBy(first, "d", kTotal).ok());
  await_watched(1);
  holding.Kill();
  AwaitNothingHeld();
}

TEST_F(LedgerRestartTest, AHolderIsNotDeadBecauseNothingCanBeOpened) {
  ASSERT_TRUE(Register({}).ok());
  Sleeper sleeper;
  const v1::ProcessIdentity process = sleeper.Identity();
  absl::StatusOr<v1::Lease> lease;
  {
    const testing::NoDescriptors none;
    lease = ReserveBy(process, "a", kTotal);
  }
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->watched_pid(), process.pid());
  sleeper.Kill();
  AwaitNothingHeld();
}

TEST_F(LedgerRestartTest, ADeadProcessGetsNothing) {
  ASSERT_TRUE(Register({}).ok());
  Sleeper sleeper;
  v1::ProcessIdentity process = sleeper.Identity();
  process.set_start_ticks(process.start_ticks() + 1);  // a pid used again
  EXPECT_EQ(ReserveBy(process, "a", 1).status().code(),
            Code::kFailedPrecondition);
  process = sleeper.Identity();
  sleeper.Kill();
  EXPECT_EQ(ReserveBy(process, "b", 1).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(List().leases_size(), 0);
}

TEST_F(LedgerRestartTest, AForeignProcessIsNotWatched) {
  ASSERT_TRUE(Register({}).ok());
  Sleeper sleeper;
  v1::ProcessIdentity process = sleeper.Identity();
  process.set_boot_id("another host");
  EXPECT_FALSE(ReserveBy(process, "a", 1)->has_watched_pid());
  process = sleeper.Identity();
  process.set_pid_namespace(process.pid_namespace() + 1);
  EXPECT_FALSE(ReserveBy(process, "b", 1)->has_watched_pid());
  process.set_boot_id(std::string(64, 'b'));
  EXPECT_TRUE(ReserveBy(process, "c", 1).ok());
  for (const std::string& bad :
       {std::string(65, 'b'), std::string("a:b"), std::string()}) {
    process.set_boot_id(bad);
    EXPECT_EQ(ReserveBy(process, "d", 1).status().code(),
              Code::kInvalidArgument);
  }
}

// Whoever registers devices and says nothing more, no worker is locked out.
TEST_F(LedgerRestartTest, SilentDevicesGiveWayToRealOnes) {
  planner::DeviceProfile profile = planner::CommittedCpuProfile();
  profile.total_bytes = kTotal;
  v1::RegisterDeviceRequest request;
  v1::RegisterDeviceResponse response;
  for (int64_t i = 0; i < planner::LeaseBook::kMaxDevices; ++i) {
    profile.id = "silent " + std::to_string(i);
    *request.mutable_profile() = ToProto(profile);
    ASSERT_TRUE(ledger_->RegisterDevice(request, response).ok());
  }
  ASSERT_TRUE(Register({}).ok());
  EXPECT_TRUE(Reserve("a", 1).ok());
  v1::ListDevicesResponse devices;
  ASSERT_TRUE(ledger_->ListDevices(devices).ok());
  EXPECT_EQ(devices.devices_size(), planner::LeaseBook::kMaxDevices);
  EXPECT_EQ(devices.devices(0).profile().id(), "cpu");
  EXPECT_FALSE(ledger_->FindDevice("silent 0").ok());
}

TEST_F(LedgerRestartTest, AReleaseThatIsRepeatedShrinksTheDeviceOnce) {
  ASSERT_TRUE(Register({}).ok());
  const auto lease = Reserve("a", 900);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Release(*lease, /*shortfall=*/100).ok());
  }
  EXPECT_EQ(ledger_->FindDevice("cpu", "model")->available_bytes, kTotal - 100);
}

TEST_F(LedgerRestartTest, AnUnhealthyDeviceGetsNothingUntilAFreshWorkerComes) {
  ASSERT_TRUE(Register({}).ok());
  const auto lease = Reserve("a", 100);
  ASSERT_TRUE(Register({.is_unhealthy = true}).ok());
  EXPECT_EQ(ReasonOf(Reserve("b", 1).status()),
            v1::ERROR_REASON_DEVICE_UNHEALTHY);
  EXPECT_EQ(ReasonOf(ledger_->FindDevice("cpu").status()),
            v1::ERROR_REASON_DEVICE_UNHEALTHY);
  ASSERT_TRUE(Register({}).ok());  // the one that broke it
  EXPECT_FALSE(Reserve("c", 1).ok());
  ASSERT_TRUE(Register({.holder = "fresh"}).ok());
  EXPECT_TRUE(Reserve("d", 1).ok());
}

TEST_F(LedgerRestartTest, AFailedLoadWidensTheMarginOfItsModel) {
  ASSERT_TRUE(Register({}).ok());
  const auto lease = Reserve("a", 900);
  ASSERT_TRUE(Release(*lease, /*shortfall=*/200).ok());
  EXPECT_EQ(ledger_->FindDevice("cpu", "model")->available_bytes, kTotal - 200);
  EXPECT_EQ(ledger_->FindDevice("cpu", "other")->available_bytes, kTotal);
  EXPECT_EQ(Reserve("b", 801).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Reserve("c", 800).ok());
}

TEST_F(LedgerRestartTest, AReleaseIsOnTheDiskBeforeItIsAnswered) {
  ASSERT_TRUE(Register({}).ok());
  const auto kept = Reserve("a", 300);
  const auto released = Reserve("b", 200);
  ASSERT_TRUE(Release(*released, /*shortfall=*/0).ok());
  // The copy is what another process would read after kill -9.
  const std::string copy = folder_.File("copy.db");
  for (const char* suffix : {"", "-wal"}) {
    std::filesystem::copy_file(path_ + suffix, copy + suffix);
  }
  const auto journal = Journal::Open(copy, [this] { return now_; });
  ASSERT_TRUE(journal.ok());
  int n_live = 0;
  for (const auto& record : (*journal)->image().records) {
    if (record.lease.state != planner::LeaseState::kReleased) ++n_live;
  }
  EXPECT_EQ(n_live, 1);
}

TEST_F(LedgerRestartTest, ARecoveryThatIsOverIsNotRepeated) {
  ledger_.reset();
  std::filesystem::remove(path_);
  Start({.first_epoch = 500});
  EXPECT_TRUE(List().has_recovery_left());
  now_ += planner::LeaseTimes::kDefaultTtl;
  ledger_->Tick();
  Start({});
  EXPECT_FALSE(List().has_recovery_left());
  ASSERT_TRUE(Register({}).ok());
  EXPECT_GE(Reserve("a", 1)->epoch(), 500u);
}

TEST_F(LedgerRestartTest, AFullDiskAtTheStartIsNotForEver) {
  ASSERT_TRUE(Register({}).ok());
  const auto lease = Reserve("a", 600);
  ASSERT_TRUE(Confirm(*lease).ok());
  SetVfsFaults({.at = 1, .write_code = SQLITE_FULL});
  Start({});
  // What was granted is known; nothing can be added to it.
  EXPECT_EQ(List().leases_size(), 1);
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_FAILED);
  ASSERT_TRUE(Register({.free_bytes = 400}).ok());
  EXPECT_EQ(ReasonOf(Reserve("b", 1).status()),
            v1::ERROR_REASON_JOURNAL_FAILED);
  SetVfsFaults({});
  ledger_->Tick();
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_GOOD);
  EXPECT_EQ(Reserve("c", 401).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Reserve("d", 400).ok());
}

TEST_F(LedgerRestartTest, AFullDiskUnderANewJournalIsNotForEver) {
  ledger_.reset();
  std::filesystem::remove(path_);
  SetVfsFaults({.at = 1, .write_code = SQLITE_FULL});
  Start({});
  ASSERT_TRUE(Register({}).ok());
  v1::Lease held;
  held.set_id("held");
  held.set_epoch(7);
  held.set_device_id("cpu");
  held.set_holder("worker");
  held.set_bytes(600);
  ASSERT_TRUE(Renew(held, /*is_presented=*/true).ok());
  now_ += planner::LeaseTimes::kDefaultTtl;
  EXPECT_EQ(ReasonOf(Reserve("a", 1).status()),
            v1::ERROR_REASON_JOURNAL_FAILED);
  SetVfsFaults({});
  ledger_->Tick();
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_GOOD);
  ASSERT_TRUE(Reserve("b", 400).ok());
  Start({});
  EXPECT_EQ(List().leases_size(), 2);
}

TEST_F(LedgerRestartTest, AJournalThatComesLateBringsItsLeases) {
  ASSERT_TRUE(Register({}).ok());
  const auto a = Reserve("a", 100);
  const auto b = Reserve("b", 200);
  const auto c = Reserve("c", 300);
  ASSERT_TRUE(Confirm(*a).ok() && Confirm(*b).ok() && Confirm(*c).ok());
  ledger_.reset();
  const std::string away = folder_.File("away.db");
  std::filesystem::rename(path_, away);
  std::filesystem::create_directory(path_);  // no file can be opened there
  Start({.first_epoch = 1'000});
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_FAILED);
  ASSERT_TRUE(Register({.free_bytes = 400}).ok());
  // One is presented, one is presented and released, one is not heard of.
  ASSERT_TRUE(Renew(*a, /*is_presented=*/true).ok());
  ASSERT_TRUE(Renew(*b, /*is_presented=*/true).ok());
  ASSERT_TRUE(Release(*b, /*shortfall=*/0).ok());
  now_ += planner::LeaseTimes::kDefaultTtl;
  std::filesystem::remove(path_);
  std::filesystem::rename(away, path_);
  ledger_->Tick();
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_GOOD);
  EXPECT_EQ(List().leases_size(), 2);
  ASSERT_TRUE(Register({.free_bytes = 600}).ok());
  EXPECT_EQ(Reserve("d", 601).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Reserve("e", 600).ok());
  Start({});
  EXPECT_EQ(List().leases_size(), 3);
}

TEST_F(LedgerRestartTest, AJournalThatIsMovedAwayEndsGrants) {
  ASSERT_TRUE(Register({}).ok());
  ASSERT_TRUE(Reserve("a", 100).ok());
  std::filesystem::rename(path_, folder_.File("away.db"));
  EXPECT_EQ(ReasonOf(Reserve("b", 1).status()),
            v1::ERROR_REASON_JOURNAL_FAILED);
  EXPECT_EQ(List().journal(), v1::JOURNAL_STATE_FAILED);
}

}  // namespace
}  // namespace plimsoll::services
