// A ledger with one device and a clock that the test moves.
#ifndef PLIMSOLL_TESTS_SERVICES_PLANNER_LEDGER_FIXTURE_H_
#define PLIMSOLL_TESTS_SERVICES_PLANNER_LEDGER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/layout/device_profile.h"
#include "services/planner/ledger.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {

class LedgerFixture : public ::testing::Test {
 protected:
  static constexpr int64_t kTotal = 1 << 30;  // bytes of the device "cpu"

  LedgerFixture() { Register(kTotal, /*never_swapped=*/false); }

  void Register(int64_t free_bytes, bool never_swapped) {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = "cpu";
    profile.total_bytes = kTotal;
    profile.free_bytes = free_bytes;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    request.set_never_swapped(never_swapped);
    v1::RegisterDeviceResponse response;
    ASSERT_TRUE(ledger_.RegisterDevice(request, response).ok());
  }

  absl::StatusOr<v1::Lease> Reserve(const std::string& id, int64_t bytes) {
    v1::ReserveRequest request;
    request.set_request_id(id);
    request.set_device_id("cpu");
    request.set_holder("worker");
    request.set_bytes(ToUint64(bytes));
    v1::ReserveResponse response;
    const absl::Status status = ledger_.Reserve(request, response);
    if (!status.ok()) return status;
    return response.lease();
  }

  absl::Time now_ = absl::UnixEpoch();
  Ledger ledger_{[this] { return now_; }};
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_PLANNER_LEDGER_FIXTURE_H_
