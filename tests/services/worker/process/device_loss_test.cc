// A worker whose device is lost: its streams, its process, and what the planner
// does about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "services/wire/errors.h"
#include "services/worker/process/worker_core.h"
#include "services/worker/process/worker_process.h"
#include "tests/services/worker/worker_fixture.h"
#include "tests/worker/device/hooked_device.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::LosableDevice;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;

TEST(DeviceLossTest, StreamsEndUnavailableWithTheReason) {
  LosableDevice device;
  TestWorker worker({.change = [&](WorkerOptions& options) {
    options.devices = {
        DeviceOf(device, "test/gpu", /*memory_bytes=*/std::nullopt)};
    options.on_device_lost = [](const absl::Status& error) {
      return WithDetails(error, {v1::ERROR_REASON_DEVICE_UNHEALTHY, {}, {}});
    };
  }});
  ASSERT_TRUE(worker.Load("a").ok());
  grpc::ClientContext context;
  const auto request = GreedyRequest<v1::StreamGenerateRequest>("hello", 0);
  const auto reader = worker.generation->StreamGenerate(&context, request);
  v1::StreamGenerateResponse part;
  ASSERT_TRUE(reader->Read(&part));
  device.Lose();
  bool is_finished = false;
  while (reader->Read(&part)) is_finished |= part.has_finish();
  EXPECT_FALSE(is_finished);
  const absl::Status status = FromGrpc(reader->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_DEVICE_UNHEALTHY);
  // A load finds it out as well, whatever it failed with.
  EXPECT_EQ(DetailsOf(FromGrpc(worker.Load("b"))).reason,
            v1::ERROR_REASON_DEVICE_UNHEALTHY);
}

// The engine's model is loaded, then its device is gone; nobody asks for
// anything.
class LostAfterItsLoad final : public worker::ComputeDevice {
 public:
  absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& pool) const override {
    has_begun_ = true;
    return kernels::NewCpuBackend(pool);
  }
  planner::DeviceProfile Profile() const override {
    return worker::LocalCpu().Profile();
  }
  absl::Status Check() const override {
    return LosableDevice::Status(has_begun_);
  }
  bool is_host() const override { return false; }

 private:
  mutable std::atomic<bool> has_begun_ = false;
};

constexpr char kPlannerVariable[] = "PLIMSOLL_TEST_PLANNER";

// Never returns. `with_another`: the worker has a device before that one on
// which nothing fits.
void RunLostWorker(const std::string& path, bool with_another) {
  HoldSignals();
  const LostAfterItsLoad device;
  const LosableDevice another;
  WorkerOptions options;
  options.models = {{"a", path}};
  options.load.n_ctx = 256;
  options.load.n_ubatch = 64;
  options.chat_format = worker::ChatFormat::kChatMl;
  if (with_another) {
    options.devices = {DeviceOf(another, "test/well", /*memory_bytes=*/1)};
  }
  options.devices.push_back(
      DeviceOf(device, "test/gpu", /*memory_bytes=*/std::nullopt));
  options.planner = std::getenv(kPlannerVariable);
  options.holder = "test/lost";
  options.clock = BootTime;
  const absl::Status status = RunWorker({}, options);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
}

// Another holder reserves 1 MiB of a device.
absl::Status ReserveOn(TestPlanner& planner, const std::string& device_id) {
  grpc::ClientContext context;
  v1::ReserveRequest request;
  request.set_request_id("r/" + device_id);
  request.set_device_id(device_id);
  request.set_holder("test/next");
  request.set_purpose("a");
  request.set_bytes(1 << 20);
  v1::ReserveResponse response;
  return FromGrpc(planner.stub->Reserve(&context, request, &response));
}

TEST(DeviceLossDeathTest, OfSeveralDevicesTheLostOneIsTold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TestPlanner planner;
  setenv(kPlannerVariable, planner.server->address().c_str(), 0);
  const TemporaryFile file(RandomModelBytes(FindRandomModel("llama_f32")));
  EXPECT_EXIT(RunLostWorker(file.path(), /*with_another=*/true),
              ::testing::ExitedWithCode(kExitDeviceLost),
              "device is lost.*test/gpu: fell off the bus");
  unsetenv(kPlannerVariable);
  EXPECT_EQ(DetailsOf(ReserveOn(planner, "test/gpu")).reason,
            v1::ERROR_REASON_DEVICE_UNHEALTHY);
  EXPECT_TRUE(ReserveOn(planner, "test/well").ok());
}

TEST(DeviceLossDeathTest, F20TheProcessEndsAndThePlannerGrantsNothingThere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TestPlanner planner;
  // The process that is to end runs this test again, up to its own end: it
  // keeps the planner of the one that started it.
  setenv(kPlannerVariable, planner.server->address().c_str(), 0);
  const TemporaryFile file(RandomModelBytes(FindRandomModel("llama_f32")));
  EXPECT_EXIT(RunLostWorker(file.path(), /*with_another=*/false),
              ::testing::ExitedWithCode(kExitDeviceLost), "device is lost");
  unsetenv(kPlannerVariable);

  const auto reserve = [&] { return ReserveOn(planner, "test/gpu"); };
  EXPECT_EQ(reserve().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DetailsOf(reserve()).reason, v1::ERROR_REASON_DEVICE_UNHEALTHY);
  PlannerClient same(planner.server->address(), {.name = "test/lost"},
                     BootTime);
  ASSERT_TRUE(same.RegisterDevice("test/gpu", worker::LocalCpuProfile()).ok());
  EXPECT_EQ(reserve().code(), absl::StatusCode::kUnavailable);
  PlannerClient next(planner.server->address(), {.name = "test/next"},
                     BootTime);
  ASSERT_TRUE(next.RegisterDevice("test/gpu", worker::LocalCpuProfile()).ok());
  EXPECT_TRUE(reserve().ok()) << reserve();
}

}  // namespace
}  // namespace plimsoll::services
