// What an engine does with a device of its own: before it is ready, and when
// the device is lost, fails once, or hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::BackendHooks;
using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::HookedDevice;
using ::plimsoll::testing::LosableDevice;
using ::plimsoll::testing::RandomIds;
using ::testing::HasSubstr;

class DeviceLossTest : public plimsoll::testing::EngineFixture {};

TEST_F(DeviceLossTest, EndsEveryStreamAndRefusesNewOnes) {
  LosableDevice device;
  std::vector<absl::Status> told;
  Load("llama_f32", {.n_ctx = 4'096,
                     .n_slots = 2,
                     .device = &device,
                     .on_device_lost = [&told](const absl::Status& error) {
                       told.push_back(error);
                       return absl::UnavailableError("the device is lost");
                     }});
  std::vector<std::shared_ptr<CollectSink>> sinks;
  absl::Notification has_begun;
  for (uint32_t i = 0; i < 3; ++i) {  // one more than there are slots
    sinks.push_back(std::make_shared<CollectSink>());
    if (i == 0) {
      sinks[0]->after_output = [&](int64_t n) {
        if (n == 3) has_begun.Notify();
      };
    }
    ASSERT_TRUE(engine_->Submit(Greedy(RandomIds(20, i), 0), sinks[i]).ok());
  }
  has_begun.WaitForNotification();
  device.Lose();
  for (const auto& sink : sinks) {
    const Generated ended = sink->Await();
    EXPECT_EQ(ended.status, absl::UnavailableError("the device is lost"));
  }
  EXPECT_EQ(Generate(*engine_, Greedy(RandomIds(5, 1), 1)).status,
            absl::UnavailableError("the device is lost"));
  SessionOptions session;
  session.id = "s";
  EXPECT_EQ(engine_->OpenSession(session).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(engine_->Idle());
  engine_.reset();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(std::string(told[0].message()), HasSubstr("fell off the bus"));
}

TEST_F(DeviceLossTest, AnErrorOfOneOperationEndsItsStepAlone) {
  std::atomic<int64_t> left = -1;  // operations until the error
  const HookedDevice device({.before = [&left] {
    return left-- == 0 ? absl::InternalError("a bad launch") : absl::OkStatus();
  }});
  Load("llama_f32",
       {.device = &device, .on_device_lost = [](const absl::Status& error) {
          ADD_FAILURE() << error;
          return error;
        }});
  left = 30;
  const Generated failed = Generate(*engine_, Greedy(RandomIds(5, 1), 20));
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(Generate(*engine_, Greedy(RandomIds(5, 1), 20)).status.ok());
}

TEST_F(DeviceLossTest, StepsOfEverySizeHaveRunBeforeTheModelIsReady) {
  const auto prompt = RandomIds(40, 2);
  Load("gemma_q5_0", {.n_ctx = 256, .n_slots = 3});
  const Generated expected = Generate(*engine_, Greedy(prompt, 30));
  std::vector<int64_t> begun;
  const HookedDevice device(
      {.begun = [&begun](int64_t n_rows) { begun.push_back(n_rows); }});
  Load("gemma_q5_0", {.n_ctx = 256, .n_slots = 3, .device = &device});
  EXPECT_THAT(begun, ::testing::ElementsAre(3, 1, 2));
  EXPECT_TRUE(plimsoll::testing::SameBits(
      Generate(*engine_, Greedy(prompt, 30)), expected));
  begun.clear();
  Load("llama_f32", {.n_ctx = 64, .n_slots = 17, .device = &device});
  EXPECT_EQ(begun.size(), 17u);
  EXPECT_EQ(begun.front(), 17);
  EXPECT_EQ(begun.back(), 16);
  begun.clear();
  Load("llama_f32",
       {.n_ctx = 64, .n_slots = 2, .n_draft = 3, .device = &device});
  EXPECT_THAT(begun, ::testing::ElementsAre(8, 2, 1));
  begun.clear();
  Load("llama_f32",
       {.n_ctx = 64, .n_slots = 3, .n_ubatch = 2, .device = &device});
  EXPECT_THAT(begun, ::testing::ElementsAre(2, 1));
}

TEST_F(DeviceLossTest, ALoadOnALostDeviceFails) {
  LosableDevice device;
  device.Lose();
  file_.emplace(plimsoll::testing::RandomModelBytes(
      plimsoll::testing::FindRandomModel("llama_f32")));
  const auto engine =
      plimsoll::testing::LoadEngine(file_->path(), {.device = &device});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DeviceLossTest, TheAgeOfAStepThatHangsGrows) {
  std::atomic<int64_t> seconds = 1;
  std::atomic<bool> hangs = false;
  absl::Notification is_hanging;
  absl::Notification go_on;
  const HookedDevice device({.before = [&] {
    if (hangs.exchange(false)) {
      is_hanging.Notify();
      go_on.WaitForNotification();
    }
    return absl::OkStatus();
  }});
  Load("llama_f32", {.device = &device, .clock = [&seconds] {
                       return absl::FromUnixSeconds(seconds);
                     }});
  EXPECT_EQ(engine_->StepAge(), absl::ZeroDuration());
  hangs = true;
  const auto sink = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(Greedy(RandomIds(5, 1), 2), sink).ok());
  is_hanging.WaitForNotification();
  seconds += 31;
  EXPECT_EQ(engine_->StepAge(), absl::Seconds(31));
  EXPECT_EQ(engine_->StallTime(), absl::Seconds(31));
  go_on.Notify();
  EXPECT_TRUE(sink->Await().status.ok());
}

TEST_F(DeviceLossTest, ASlowStepGoesOnWithEachPartOfALayer) {
  std::atomic<int64_t> seconds = 1;
  std::atomic<bool> is_loaded = false;  // a load runs steps, too
  std::atomic<int> n_layers = 0;        // layers of the step so far
  absl::Notification is_hanging;
  absl::Notification go_on;
  // Each layer takes a minute, and then the second one hangs.
  const HookedDevice device({.attending = [&](const kernels::AttentionArgs&) {
    if (!is_loaded) return;
    seconds += 60;
    if (++n_layers != 2) return;
    is_hanging.Notify();
    go_on.WaitForNotification();
  }});
  Load("llama_f32", {.device = &device, .clock = [&seconds] {
                       return absl::FromUnixSeconds(seconds);
                     }});
  EXPECT_EQ(engine_->StallTime(), absl::ZeroDuration());
  is_loaded = true;
  const auto sink = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(Greedy(RandomIds(5, 1), 1), sink).ok());
  is_hanging.WaitForNotification();
  EXPECT_EQ(engine_->StepAge(), absl::Minutes(2));
  EXPECT_EQ(engine_->StallTime(), absl::Minutes(1));
  go_on.Notify();
  EXPECT_TRUE(sink->Await().status.ok());
}

}  // namespace
}  // namespace plimsoll::worker
