// A worker of which a step or a load hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "absl/strings/string_view.h"
#include "services/host/hang_watch.h"
#include "tests/services/host/liveness.h"
#include "tests/services/worker/worker_fixture.h"
#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/hanging_operation.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::HangingOperation;
using ::plimsoll::testing::HookedDevice;
using ::plimsoll::testing::Liveness;

constexpr absl::Duration kLimit = absl::Minutes(1);  // below calls' deadlines

// A worker whose device may hang, with a clock that can be moved ahead, and a
// watch over it.
class HangingWorkerTest : public ::testing::Test {
 protected:
  HangingWorkerTest()
      : device_({.before = [this] { return operation_.Pass(); }}),
        worker_({.change = [this](WorkerOptions& options) {
          options.devices = {
              DeviceOf(device_, "test/device", /*memory_bytes=*/std::nullopt)};
          options.clock = [this] {
            return BootTime() + absl::Seconds(ahead_s_.load());
          };
        }}) {}

  void Watch() {
    watch_.Watch(
        {.longest_stall = [this] { return worker_.registry->LongestStall(); },
         .limit = kLimit,
         .on_change = [this](bool is_alive) { liveness_.Set(is_alive); },
         .interval = absl::Milliseconds(1)});
  }

  // Moves the clock to where what hangs has hung for longer than the limit,
  // and has it go on once liveness has fallen.
  void HangOutlastsTheLimit(absl::string_view what) {
    operation_.AwaitHang();
    EXPECT_EQ(liveness_.n_changes(), 0);
    ahead_s_ += absl::ToInt64Seconds(kLimit) + 1;
    liveness_.Await(false);
    const Stall stall = worker_.registry->LongestStall();
    EXPECT_EQ(stall.what, what);
    EXPECT_GT(stall.time, kLimit);
    operation_.GoOn();
    liveness_.Await(true);
  }

  HangingOperation operation_;
  std::atomic<int64_t> ahead_s_ = 0;
  const HookedDevice device_;
  TestWorker worker_;
  Liveness liveness_;
  HangWatch watch_;
};

TEST_F(HangingWorkerTest, AStepThatHangsIsNoticedUntilItGoesOn) {
  ASSERT_TRUE(worker_.Load("a").ok());
  Watch();
  operation_.Hang();
  std::thread caller([this] {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    const auto request = GreedyRequest<v1::GenerateRequest>("hello", 4);
    const auto status =
        worker_.generation->Generate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  });
  HangOutlastsTheLimit("a step of model a");
  caller.join();
  // The last step may still be at its end after its reply.
  EXPECT_LT(worker_.registry->LongestStall().time, kLimit);
}

TEST_F(HangingWorkerTest, ALoadThatHangsIsNoticedUntilItGoesOn) {
  Watch();
  operation_.Hang();
  std::thread caller([this] { EXPECT_TRUE(worker_.Load("b").ok()); });
  HangOutlastsTheLimit("the load of model b");
  caller.join();
  EXPECT_EQ(worker_.registry->LongestStall().time, absl::ZeroDuration());
}

}  // namespace
}  // namespace plimsoll::services
