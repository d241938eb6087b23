// Workers on a device with memory of its own: two under one planner's leases,
// and one with layers there and on the host.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/cuda/emulated_backend.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"
#include "worker/device/compute_device.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FindRandomModel;

constexpr char kDeviceId[] = "EMULATED-0";

// A worker on the emulated device.
std::unique_ptr<TestWorker> OnDevice(const worker::ComputeDevice& device,
                                     TestPlanner& planner,
                                     const std::string& holder) {
  return std::make_unique<TestWorker>(TestWorkerSetup{
      .planner = &planner, .change = [&](WorkerOptions& options) {
        options.devices = {
            DeviceOf(device, kDeviceId, /*memory_bytes=*/std::nullopt)};
        options.holder = holder;
      }});
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
  ASSERT_TRUE(one->LoadWithContext("a", 256).ok());
  ASSERT_TRUE(two->LoadWithContext("a", 256).ok());
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
  const absl::Status refused = FromGrpc(two->LoadWithContext("b", 256));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailsOf(refused).reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  ASSERT_TRUE(one->Unload("a").ok());
  ASSERT_TRUE(two->Unload("a").ok());
  EXPECT_EQ((*device)->Profile().free_bytes, free_before);
}

TEST(SplitOnDeviceTest, LayersLieOnTheDeviceAndOnTheHost) {
  const auto device =
      worker::OpenAccelerator([] { return kernels::NewEmulatedCudaBackend(); },
                              kernels::ReadEmulatedCudaMemory);
  ASSERT_TRUE(device.ok()) << device.status();
  // Layers that take more than an arena is rounded up to.
  plimsoll::testing::RandomModel model = FindRandomModel("llama_f32");
  model.ffn_dim = 8'192;
  TestPlanner planner;
  const int64_t free_before = (*device)->Profile().free_bytes;
  const auto start = [&](std::optional<int64_t> device_memory) {
    return std::make_unique<TestWorker>(TestWorkerSetup{
        .planner = &planner,
        .model = model,
        .change = [&](WorkerOptions& options) {
          options.devices = {DeviceOf(**device, kDeviceId, device_memory),
                             DeviceOf(worker::LocalCpu(), "test/cpu",
                                      /*memory_bytes=*/std::nullopt)};
        }});
  };
  int64_t whole_bytes = 0;
  {
    const auto whole = start(std::nullopt);
    ASSERT_TRUE(whole->LoadWithContext("a", 256).ok());
    EXPECT_EQ(whole->Describe("a").parts_size(), 0);
    whole_bytes = static_cast<int64_t>(whole->Describe("a").total_bytes());
  }
  const auto worker = start(whole_bytes - 1);
  const absl::Status loaded = FromGrpc(worker->LoadWithContext("a", 256));
  ASSERT_TRUE(loaded.ok()) << loaded;
  ASSERT_EQ(worker->Describe("a").parts_size(), 2);
  for (const v1::Lease& lease : planner.Leases()) {
    EXPECT_EQ(lease.state(), v1::LEASE_STATE_CONFIRMED);
    if (lease.device_id() != kDeviceId) continue;
    EXPECT_EQ(static_cast<int64_t>(lease.measured_bytes()),
              free_before - (*device)->Profile().free_bytes);
  }
  EXPECT_EQ(planner.Leases().size(), 2u);
  grpc::ClientContext context;
  v1::GenerateResponse response;
  const auto request = GreedyRequest<v1::GenerateRequest>("hello", 4);
  EXPECT_TRUE(worker->generation->Generate(&context, request, &response).ok());
  EXPECT_EQ(response.tokens_size(), 4);
  ASSERT_TRUE(worker->Unload("a").ok());
  EXPECT_TRUE(planner.Leases().empty());
  EXPECT_EQ((*device)->Profile().free_bytes, free_before);
}

}  // namespace
}  // namespace plimsoll::services
