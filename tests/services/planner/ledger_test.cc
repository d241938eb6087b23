#include "services/planner/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "tests/services/planner/ledger_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::Contains;
using ::testing::Pair;
using Code = absl::StatusCode;

class LedgerTest : public LedgerFixture {
 protected:
  uint64_t Available() {
    v1::ListDevicesResponse response;
    EXPECT_TRUE(ledger_.ListDevices(response).ok());
    return response.devices(0).available_bytes();
  }
  absl::Status Force(const std::string& lease_id, const std::string& reason) {
    v1::ForceReleaseRequest request;
    request.set_lease_id(lease_id);
    request.set_reason(reason);
    v1::ForceReleaseResponse response;
    return ledger_.ForceRelease(request, response, "a test");
  }
  // Renews a lease as a worker does whose memory is allocated.
  absl::Status Present(const v1::Lease& lease, int64_t measured_bytes,
                       int64_t free_bytes) {
    v1::RenewRequest request;
    request.set_lease_id(lease.id());
    request.set_epoch(lease.epoch());
    request.set_device_free_bytes(ToUint64(free_bytes));
    v1::PresentedLease& presented = *request.mutable_presented();
    presented.set_device_id(lease.device_id());
    presented.set_holder(lease.holder());
    presented.set_bytes(lease.bytes());
    presented.set_measured_bytes(ToUint64(measured_bytes));
    v1::RenewResponse response;
    return ledger_.Renew(request, response);
  }
};

TEST_F(LedgerTest, ARepeatedRequestGetsTheFirstReply) {
  const auto first = Reserve("r1", 100);
  const auto second = Reserve("r1", 100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->id(), second->id());
  EXPECT_EQ(Available(), ToUint64(kTotal - 100));
}

TEST_F(LedgerTest, LeaseIdsAreLongAndDiffer) {
  const auto a = Reserve("a", 1);
  const auto b = Reserve("b", 1);
  EXPECT_EQ(a->id().size(), 32u);
  EXPECT_NE(a->id(), b->id());
}

TEST_F(LedgerTest, ARefusalHasItsNumbers) {
  ASSERT_TRUE(Reserve("a", kTotal - 10).ok());
  const absl::Status refusal = Reserve("b", 11).status();
  const ErrorDetails details = DetailsOf(refusal);
  EXPECT_EQ(refusal.code(), Code::kResourceExhausted);
  EXPECT_EQ(details.reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  EXPECT_THAT(details.metadata, Contains(Pair("wanted_bytes", "11")));
  EXPECT_THAT(details.metadata, Contains(Pair("available_bytes", "10")));
  EXPECT_TRUE(details.retry_after.has_value());
}

TEST_F(LedgerTest, ExpiryFreesNothing) {
  ASSERT_TRUE(Reserve("a", kTotal).ok());
  now_ += absl::Hours(1);
  v1::ListLeasesResponse leases;
  ASSERT_TRUE(ledger_.ListLeases({}, leases).ok());
  ASSERT_EQ(leases.leases_size(), 1);
  EXPECT_EQ(leases.leases(0).state(), v1::LEASE_STATE_SUSPECT);
  EXPECT_EQ(Reserve("b", 1).status().code(), Code::kResourceExhausted);
}

TEST_F(LedgerTest, AReleaseFreesAll) {
  const auto lease = Reserve("a", kTotal);
  v1::ReleaseRequest request;
  request.set_lease_id(lease->id());
  request.set_epoch(lease->epoch());
  v1::ReleaseResponse response;
  EXPECT_TRUE(ledger_.Release(request, response).ok());
  EXPECT_TRUE(ledger_.Release(request, response).ok());
  EXPECT_TRUE(Reserve("b", kTotal).ok());
}

TEST_F(LedgerTest, AConfirmedLeaseIsTakenBackAfterItExpired) {
  const auto lease = Reserve("a", 100);
  v1::ConfirmRequest confirm;
  confirm.set_lease_id(lease->id());
  confirm.set_epoch(lease->epoch());
  confirm.set_measured_bytes(90);
  confirm.set_device_free_bytes(ToUint64(kTotal - 90));
  v1::ConfirmResponse confirmed;
  ASSERT_TRUE(ledger_.Confirm(confirm, confirmed).ok());
  EXPECT_EQ(confirmed.lease().state(), v1::LEASE_STATE_CONFIRMED);
  now_ += absl::Hours(1);
  v1::RenewRequest renew;
  renew.set_lease_id(lease->id());
  renew.set_epoch(lease->epoch());
  v1::RenewResponse renewed;
  ASSERT_TRUE(ledger_.Renew(renew, renewed).ok());
  EXPECT_EQ(renewed.lease().id(), lease->id());
  EXPECT_EQ(renewed.lease().state(), v1::LEASE_STATE_CONFIRMED);
}

// Three workers of another host have a third of the device each, and one dies.
TEST_F(LedgerTest, NeighboursProveThatALeaseIsGone) {
  constexpr int64_t kBytes = kTotal / 4;
  for (const bool never_swapped : {false, true}) {
    Register(kTotal, never_swapped);
    std::vector<v1::Lease> leases;
    for (int i = 0; i < 3; ++i) {
      const std::string id = absl::StrCat(never_swapped ? "new " : "", i);
      leases.push_back(*Reserve(id, kBytes));
      v1::ConfirmRequest confirm;
      confirm.set_lease_id(leases.back().id());
      confirm.set_epoch(leases.back().epoch());
      confirm.set_measured_bytes(ToUint64(kBytes));
      confirm.set_device_free_bytes(ToUint64(kTotal - (i + 1) * kBytes));
      v1::ConfirmResponse confirmed;
      ASSERT_TRUE(ledger_.Confirm(confirm, confirmed).ok());
    }
    for (int round = 0; round < 20; ++round) {
      now_ += absl::Seconds(3);
      for (size_t i = 1; i < leases.size(); ++i) {
        ASSERT_TRUE(Present(leases[i], kBytes, kTotal - 2 * kBytes).ok());
      }
    }
    EXPECT_EQ(Available(), ToUint64(never_swapped ? kTotal - 2 * kBytes
                                                  : kTotal - 3 * kBytes));
    for (const v1::Lease& lease : leases) {
      v1::ReleaseRequest release;
      release.set_lease_id(lease.id());
      release.set_epoch(lease.epoch());
      v1::ReleaseResponse released;
      ASSERT_TRUE(ledger_.Release(release, released).ok());
    }
  }
}

TEST_F(LedgerTest, ADeadReservationIsLost) {
  const auto lease = Reserve("a", 100);
  now_ += absl::Hours(1);
  v1::ConfirmRequest confirm;
  confirm.set_lease_id(lease->id());
  confirm.set_epoch(lease->epoch());
  v1::ConfirmResponse response;
  const absl::Status status = ledger_.Confirm(confirm, response);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_LEASE_LOST);
}

TEST_F(LedgerTest, AnUnknownLeaseIsNotFound) {
  v1::RenewRequest renew;
  renew.set_lease_id("nobody's");
  v1::RenewResponse response;
  const absl::Status status = ledger_.Renew(renew, response);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_LEASE_NOT_FOUND);
}

TEST_F(LedgerTest, AnOwnersLeasesAreForNobodyElse) {
  v1::ReserveRequest reserve;
  reserve.set_request_id("r");
  reserve.set_device_id("cpu");
  reserve.set_holder("host/1");
  reserve.set_bytes(100);
  v1::ReserveResponse reserved;
  ASSERT_TRUE(ledger_.Reserve(reserve, reserved, "dns:a").ok());
  const v1::Lease lease = reserved.lease();
  EXPECT_EQ(lease.holder(), "dns:a host/1");
  v1::ConfirmRequest confirm;
  confirm.set_lease_id(lease.id());
  confirm.set_epoch(lease.epoch());
  confirm.set_measured_bytes(100);
  v1::RenewRequest renew;
  renew.set_lease_id(lease.id());
  renew.set_epoch(lease.epoch());
  v1::RenewRequest present = renew;
  present.mutable_presented()->set_device_id("cpu");
  present.mutable_presented()->set_holder("host/1");
  present.mutable_presented()->set_bytes(100);
  present.mutable_presented()->set_measured_bytes(100);
  v1::ReleaseRequest release;
  release.set_lease_id(lease.id());
  release.set_epoch(lease.epoch());
  v1::ConfirmResponse confirmed;
  v1::RenewResponse renewed;
  v1::ReleaseResponse released;
  // Neither another owner, nor one whose name begins with this one's.
  for (const char* other : {"dns:b", "dns:", "dns:a host"}) {
    EXPECT_EQ(ledger_.Confirm(confirm, confirmed, other).code(),
              Code::kPermissionDenied);
    EXPECT_EQ(ledger_.Renew(renew, renewed, other).code(),
              Code::kPermissionDenied);
    EXPECT_EQ(ledger_.Renew(present, renewed, other).code(),
              Code::kPermissionDenied);
    EXPECT_EQ(ledger_.Release(release, released, other).code(),
              Code::kPermissionDenied);
  }
  EXPECT_TRUE(ledger_.Confirm(confirm, confirmed, "dns:a").ok());
  EXPECT_TRUE(ledger_.Renew(present, renewed, "dns:a").ok());
  EXPECT_TRUE(ledger_.Renew(renew, renewed).ok());
  EXPECT_TRUE(ledger_.Release(release, released, "dns:a").ok());
  EXPECT_EQ(ledger_.Release(release, released, "dns:b").code(),
            Code::kPermissionDenied);
}

TEST_F(LedgerTest, ForceFreesALeaseWhoseHolderIsSilent) {
  const auto lease = Reserve("a", kTotal);
  EXPECT_EQ(DetailsOf(Force(lease->id(), "node 7 is off")).reason,
            v1::ERROR_REASON_LEASE_HELD);
  now_ += absl::Hours(1);
  EXPECT_TRUE(Force(lease->id(), "node 7 is off").ok());
  EXPECT_EQ(Available(), ToUint64(kTotal));
  EXPECT_EQ(DetailsOf(Force(lease->id(), "again")).reason,
            v1::ERROR_REASON_LEASE_NOT_FOUND);
}

TEST_F(LedgerTest, ForceTakesAReasonOfLimitedLength) {
  const auto lease = Reserve("a", kTotal);
  now_ += absl::Hours(1);
  const size_t limit = Ledger::kMaxReasonBytes;
  for (const std::string& reason :
       {std::string(), std::string("\n "), std::string(limit + 1, 'x')}) {
    EXPECT_EQ(Force(lease->id(), reason).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(Available(), 0u);
  EXPECT_TRUE(Force(lease->id(), std::string(limit, 'x')).ok());
}

// Everybody sees ids and epochs.
TEST_F(LedgerTest, OnlyTheSecretProvesALeasesHolder) {
  v1::ReserveRequest reserve;
  reserve.set_request_id("r");
  reserve.set_device_id("cpu");
  reserve.set_holder("host/1");
  reserve.set_bytes(100);
  reserve.set_secret("a secret of a test");
  v1::ReserveResponse reserved;
  ASSERT_TRUE(ledger_.Reserve(reserve, reserved).ok());
  v1::ConfirmRequest confirm;
  v1::RenewRequest renew;
  v1::RenewRequest present;
  present.mutable_presented()->set_device_id("cpu");
  present.mutable_presented()->set_holder("host/1");
  present.mutable_presented()->set_bytes(100);
  v1::ReleaseRequest release;
  const auto answers = [&](const std::string& secret) {
    const auto name = [&](auto& request) -> auto& {
      request.set_lease_id(reserved.lease().id());
      request.set_epoch(reserved.lease().epoch());
      request.set_secret(secret);
      return request;
    };
    v1::ConfirmResponse confirmed;
    v1::RenewResponse renewed;
    v1::ReleaseResponse released;
    return std::vector<Code>{ledger_.Confirm(name(confirm), confirmed).code(),
                             ledger_.Renew(name(renew), renewed).code(),
                             ledger_.Renew(name(present), renewed).code(),
                             ledger_.Release(name(release), released).code()};
  };
  const std::vector<Code> none(4, Code::kPermissionDenied);
  EXPECT_EQ(answers(""), none);
  EXPECT_EQ(answers("a secret of a tesT"), none);
  EXPECT_EQ(Available(), ToUint64(kTotal - 100));
  v1::ListLeasesResponse listed;
  ASSERT_TRUE(ledger_.ListLeases({}, listed).ok());
  const std::string hash = *HashSecret(reserve.secret());
  for (const std::string& word : {reserve.secret(), hash}) {
    EXPECT_EQ(listed.SerializeAsString().find(word), std::string::npos);
    EXPECT_EQ(reserved.SerializeAsString().find(word), std::string::npos);
  }
  EXPECT_EQ(answers(reserve.secret()), std::vector<Code>(4, Code::kOk));
  EXPECT_EQ(Available(), ToUint64(kTotal));
}

TEST_F(LedgerTest, ASecretOfAWrongLengthIsRefused) {
  v1::ReserveRequest reserve;
  reserve.set_request_id("r");
  reserve.set_device_id("cpu");
  reserve.set_holder("host/1");
  reserve.set_bytes(100);
  reserve.set_secret("too short");
  v1::ReserveResponse response;
  EXPECT_EQ(ledger_.Reserve(reserve, response).code(), Code::kInvalidArgument);
}

TEST_F(LedgerTest, ThePlannersHeadroomCountsBeforeThatOfARegistration) {
  EXPECT_EQ(Available(), ToUint64(kTotal));
  ledger_.SetPolicies({.devices = {{"cpu", kTotal - 100}}, .others = 7}, {});
  EXPECT_EQ(Available(), 100u);
  // As each worker does again and again, with none.
  Register(kTotal, /*never_swapped=*/false);
  EXPECT_EQ(Available(), 100u);
  EXPECT_EQ(Reserve("a", 101).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Reserve("b", 100).ok());
  ledger_.SetPolicies({.others = kTotal}, {});  // nothing is taken away
  EXPECT_EQ(Available(), 0u);
  ledger_.SetPolicies({}, {});
  EXPECT_EQ(Available(), ToUint64(kTotal - 100));
}

TEST_F(LedgerTest, MemoryTakenByStrangersIsRespected) {
  Register(1'000, /*never_swapped=*/false);
  EXPECT_EQ(Reserve("a", 1'001).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Reserve("b", 1'000).ok());
}

TEST_F(LedgerTest, AnUnknownDeviceIsNotFound) {
  v1::ReserveRequest request;
  request.set_request_id("a");
  request.set_device_id("gpu");
  request.set_holder("worker");
  request.set_bytes(1);
  v1::ReserveResponse response;
  const absl::Status status = ledger_.Reserve(request, response);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_DEVICE_NOT_FOUND);
}

}  // namespace
}  // namespace plimsoll::services
