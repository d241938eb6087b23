// Two workers on one device with memory of its own, under one planner's leases.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/cuda/emulation/backend.h"
#include "services/common/errors.h"
#include "tests/services/worker_fixture.h"
#include "worker/compute_device.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FindRandomModel;

constexpr char kDeviceId[] = "EMULATED-0";

// A worker on the emulated device.
std::unique_ptr<TestWorker> OnDevice(const worker::ComputeDevice& device,
                                     TestPlanner& planner,
                                     const std::string& holder) {
  return std::make_unique<TestWorker>(
      &planner, std::nullopt, nullptr, FindRandomModel("llama_f32"),
      [&](WorkerOptions& options) {
        options.devices = {DeviceOf(device, kDeviceId)};
        options.holder = holder;
      });
}

TEST(TwoWorkersTest, ShareADeviceByItsLeases) {
  const auto device =
      worker::OpenAccelerator([] { return kernels::NewEmulatedCudaBackend(); },
                              kernels::ReadEmulatedCudaMemory);
  ASSERT_TRUE(device.ok()) << device.status();
  TestPlanner planner;
  const int64_t free_before = (*device)->Profile().free_bytes;
  const auto one = OnDevice(**device, planner, "test/1");
  const auto two = OnDevice(**device, planner, "test/2");
  ASSERT_TRUE(one->Load("a", nullptr, 256).ok());
  ASSERT_TRUE(two->Load("a", nullptr, 256).ok());
  const std::vector<v1::Lease> leases = planner.Leases();
  ASSERT_EQ(leases.size(), 2u);
  uint64_t measured = 0;
  for (const v1::Lease& lease : leases) {
    EXPECT_EQ(lease.device_id(), kDeviceId);
    EXPECT_EQ(lease.state(), v1::LEASE_STATE_CONFIRMED);
    measured += lease.measured_bytes();
  }
  // Both arenas, and nothing of the host's.
  EXPECT_EQ(static_cast<int64_t>(measured),
            free_before - (*device)->Profile().free_bytes);
  // What a third one holds on paper is not granted again: the rest is less
  // than a model's.
  {
    grpc::ClientContext list_context;
    v1::ListDevicesResponse devices;
    ASSERT_TRUE(planner.stub->ListDevices(&list_context, {}, &devices).ok());
    ASSERT_EQ(devices.devices_size(), 1);
    grpc::ClientContext context;
    v1::ReserveRequest request;
    request.set_request_id("r");
    request.set_device_id(kDeviceId);
    request.set_holder("test/3");
    request.set_purpose("x");
    request.set_bytes(devices.devices(0).available_bytes() -
                      leases[0].bytes() / 2);
    v1::ReserveResponse response;
    ASSERT_TRUE(planner.stub->Reserve(&context, request, &response).ok());
  }
  const absl::Status refused = FromGrpc(two->Load("b", nullptr, 256));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailsOf(refused).reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  ASSERT_TRUE(one->Unload("a").ok());
  ASSERT_TRUE(two->Unload("a").ok());
  EXPECT_EQ((*device)->Profile().free_bytes, free_before);
}

}  // namespace
}  // namespace plimsoll::services
