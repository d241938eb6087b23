// Steps that pass a model's parts in pieces: the same bits, devices that
// compute at the same time, and what becomes of a step of which a part fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/batch_mix.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/engine/split_fixture.h"
#include "tests/worker/random_model.h"
#include "worker/device/compute_device.h"
#include "worker/engine/engine.h"
#include "worker/graph/decoder/stage.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::BackendHooks;
using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EachAlone;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::HookedDevice;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::SameBits;
using ::testing::ElementsAre;

using Devices = std::vector<const ComputeDevice*>;

// Calls SplitAt and sets n_ubatch so that pieces end within pages, windows and
// each other's blocks.
EngineSetup InPieces(Cuts cuts, Devices devices) {
  EngineSetup setup = SplitAt(std::move(cuts));
  setup.devices = std::move(devices);
  setup.n_ubatch = 96;
  setup.piece_rows = 13;
  return setup;
}

class PipelineTest : public plimsoll::testing::EngineFixture {
 protected:
  // Three, each of which computes on a thread of its own.
  const HookedDevice apart_[3] = {HookedDevice({}), HookedDevice({}),
                                  HookedDevice({})};
};

class PipelineFamilyTest : public PipelineTest,
                           public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, PipelineFamilyTest,
                         ::testing::Values("llama_half", "gemma_q5_0"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST_F(PipelineTest, RowsBetweenPartsAreInMemoryThatADeviceCopiesFrom) {
  std::vector<int64_t> bytes;
  BackendHooks hooks;
  hooks.allocated_host = [&](const kernels::Buffer& buffer) {
    bytes.push_back(buffer.bytes());
  };
  const HookedDevice device(hooks);
  const EngineSetup setup = InPieces({2, 6}, {&LocalCpu(), &device, &device});
  Load("gemma_q5_0", setup);
  const int64_t dim = FindRandomModel("gemma_q5_0").dim;
  EXPECT_THAT(bytes, ElementsAre(engine_->plan().n_rows * dim * 4));
  engine_.reset();  // before its device
}

// Parts of one device, of several, and of some in turns.
TEST_P(PipelineFamilyTest, PiecesHaveTheBitsOfTheWholeModel) {
  const std::vector<GenerateOptions> requests = Requests();
  Load(GetParam(), SplitAt({}));
  const std::vector<Generated> whole = EachAlone(*engine_, requests);
  int64_t whole_reserved = 0;
  const std::vector<Generated> chat = ChatWith(*engine_, whole_reserved);
  const ComputeDevice* const cpu = &LocalCpu();
  for (const Devices& devices :
       {Devices{cpu}, Devices{&apart_[0], &apart_[1], &apart_[2]},
        Devices{&apart_[0], cpu}}) {
    for (const Cuts& cuts : CutsOf(FindRandomModel(GetParam()).n_layers)) {
      SCOPED_TRACE(absl::StrJoin(cuts, ","));
      Load(GetParam(), InPieces(cuts, devices));
      ExpectSame(whole, EachAlone(*engine_, requests));
      int64_t reserved = 0;
      ExpectSame(chat, ChatWith(*engine_, reserved));
      plimsoll::testing::ExpectMixesChangeNothing(*engine_, requests, whole, 1,
                                                  /*seed=*/11);
      EXPECT_EQ(engine_->Memory().device_allocations_after_load, 0);
    }
  }
}

// Two prompts and one that decodes share steps of several pieces. By the clock
// prompt rows take no time, so that steps get more and more of them.
TEST_P(PipelineFamilyTest, PromptsBesideAStreamHaveTheBitsThatTheyHaveAlone) {
  const std::vector<GenerateOptions> requests = {Greedy(RandomIds(20, 1), 60),
                                                 Greedy(RandomIds(151, 2), 5),
                                                 Greedy(RandomIds(140, 3), 5)};
  Load(GetParam(), SplitAt({}));
  const std::vector<Generated> alone = EachAlone(*engine_, requests);
  std::atomic<int64_t> n_handed_on = 0;
  const HookedDevice first({.downloaded = [&](int64_t) { ++n_handed_on; }});
  EngineSetup setup = InPieces({1}, {&first, &apart_[0]});
  std::atomic<int64_t> seconds = 0;
  setup.clock = [&seconds] { return absl::FromUnixSeconds(++seconds); };
  Load(GetParam(), setup);
  n_handed_on = 0;
  absl::Notification has_begun;
  absl::Notification are_submitted;
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (size_t i = 0; i < requests.size(); ++i) {
    sinks.push_back(std::make_shared<CollectSink>());
  }
  sinks[0]->after_output = [&](int64_t n) {
    if (n != 3) return;
    if (!has_begun.HasBeenNotified()) has_begun.Notify();
    are_submitted.WaitForNotification();
  };
  ASSERT_TRUE(engine_->Submit(requests[0], sinks[0]).ok());
  has_begun.WaitForNotification();
  ASSERT_TRUE(engine_->Submit(requests[1], sinks[1]).ok());
  ASSERT_TRUE(engine_->Submit(requests[2], sinks[2]).ok());
  are_submitted.Notify();
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_TRUE(SameBits(alone[i], sinks[i]->Await())) << i;
  }
  // The stream decodes in all steps but the first.
  EXPECT_GE(n_handed_on, engine_->CurrentLoad().steps + 5);
}

// The second part waits in its first piece until the first one has two more.
TEST_F(PipelineTest, PartsOfDifferentDevicesWorkAtTheSameTime) {
  std::atomic<int> n_handed_on = 0;
  std::atomic<bool> is_loaded = false;
  std::atomic<bool> waits = false;
  absl::Notification has_more;
  const HookedDevice first({.downloaded = [&](int64_t) {
    if (is_loaded && ++n_handed_on == 3) has_more.Notify();
  }});
  const HookedDevice second({.uploading = [&] {
    if (!waits.exchange(false)) return;
    EXPECT_TRUE(has_more.WaitForNotificationWithTimeout(absl::Minutes(1)))
        << "the first part waits for the second one";
  }});
  EngineSetup setup = InPieces({1}, {&first, &second});
  setup.n_slots = 1;
  setup.n_draft = 0;
  Load("llama_half", setup);
  is_loaded = true;
  waits = true;
  EXPECT_TRUE(Generate(*engine_, Greedy(RandomIds(60, 1), 2)).status.ok());
  EXPECT_FALSE(waits);
}

// What the parts hand on says how many pieces there were.
TEST_F(PipelineTest, OnlyStepsWithManyRowsPassInPieces) {
  std::atomic<int> n_handed_on = 0;
  const HookedDevice first({.downloaded = [&](int64_t) { ++n_handed_on; }});
  EngineSetup setup = InPieces({1}, {&first, &apart_[0]});
  const auto count = [&](const GenerateOptions& request) {
    n_handed_on = 0;
    EXPECT_TRUE(Generate(*engine_, request).status.ok());
    return n_handed_on.load();
  };
  Load("llama_half", setup);
  EXPECT_EQ(count(Greedy(RandomIds(25, 1), 1)), 1);
  EXPECT_EQ(count(Greedy(RandomIds(26, 2), 1)), 2);
  EXPECT_EQ(count(Greedy(RandomIds(96, 3), 1)), 7);
  EXPECT_EQ(count(Greedy(RandomIds(26, 4), 5)), 2 + 4);
  GenerateOptions scored = Greedy(RandomIds(60, 5), 1);
  scored.prompt_logprobs = true;
  EXPECT_EQ(count(scored), 1);
  setup.piece_rows = 0;
  Load("llama_half", setup);
  EXPECT_EQ(count(Greedy(RandomIds(96, 3), 1)), 1);
}

TEST_F(PipelineTest, UnlessToldOtherwisePartsOfDifferentDevicesHavePieces) {
  std::atomic<int> n_handed_on = 0;
  const HookedDevice first({.downloaded = [&](int64_t) { ++n_handed_on; }});
  for (const bool is_same : {false, true}) {
    EngineSetup setup = {.n_ctx = 512, .n_ubatch = 512};
    setup.cuts = {1};
    setup.devices = {&first, is_same ? &first : &apart_[0]};
    Load("llama_half", setup);
    n_handed_on = 0;
    EXPECT_TRUE(Generate(*engine_, Greedy(RandomIds(500, 1), 1)).status.ok());
    EXPECT_EQ(n_handed_on, is_same ? 1 : 3);
  }
}

// In each piece of the second part, whatever the first one is at.
TEST_F(PipelineTest, AnErrorOfAPartEndsTheStepAndNothingElse) {
  std::atomic<int> pieces_left = -1;
  std::atomic<bool> fails = false;
  const HookedDevice second(
      {.before =
           [&] {
             return fails.exchange(false) ? absl::InternalError("a bad launch")
                                          : absl::OkStatus();
           },
       .uploading = [&] { fails = pieces_left-- == 0; }});
  for (const Cuts& cuts : {Cuts{3}, Cuts{2, 5}}) {
    EngineSetup setup = InPieces(cuts, {&apart_[0], &second, &apart_[1]});
    setup.prefix_cache_bytes = 0;  // every prompt is computed
    Load("gemma_q5_0", setup);
    const GenerateOptions request = Greedy(RandomIds(90, 1), 5);
    const Generated expected = Generate(*engine_, request);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    for (int i = 0; i < 6; ++i) {
      SCOPED_TRACE(i);
      pieces_left = i;
      const Generated failed = Generate(*engine_, request);
      EXPECT_EQ(failed.status, absl::InternalError("a bad launch"));
      EXPECT_TRUE(SameBits(expected, Generate(*engine_, request)));
    }
  }
}

// The first part fails while the second one is in its first piece.
TEST_F(PipelineTest, AFailedStepEndsWhenNoPartComputes) {
  std::atomic<bool> is_armed = false;
  std::atomic<int> n_handed_on = 0;
  std::atomic<int> n_operations = 0;
  absl::Notification has_begun;
  absl::Notification has_failed;
  const auto before_first = [&] {
    if (!is_armed || n_handed_on < 3) return absl::OkStatus();
    has_begun.WaitForNotification();
    if (!has_failed.HasBeenNotified()) has_failed.Notify();
    return absl::InternalError("a bad launch");
  };
  const auto give_way = [&](int times) {
    for (int i = 0; has_failed.HasBeenNotified() && i < times; ++i) {
      std::this_thread::yield();
    }
  };
  const auto before_second = [&] {
    give_way(100);
    ++n_operations;
    return absl::OkStatus();
  };
  const auto uploading_to_second = [&] {
    if (!is_armed) return;
    if (!has_begun.HasBeenNotified()) has_begun.Notify();
    has_failed.WaitForNotification();
  };
  const HookedDevice first(
      {.before = before_first, .downloaded = [&](int64_t) { ++n_handed_on; }});
  const HookedDevice second(
      {.before = before_second, .uploading = uploading_to_second});
  EngineSetup setup = InPieces({1}, {&first, &second});
  // Between steps nothing computes, however long one looks.
  setup.clock = [&] {
    const int so_far = n_operations;
    give_way(1'000);
    EXPECT_EQ(n_operations, so_far);
    return absl::Now();
  };
  Load("gemma_q5_0", setup);
  n_handed_on = 0;
  n_operations = 0;
  is_armed = true;
  EXPECT_EQ(Generate(*engine_, Greedy(RandomIds(90, 1), 3)).status,
            absl::InternalError("a bad launch"));
  EXPECT_GT(n_operations, 10);
  engine_.reset();
}

TEST_F(PipelineTest, ADeviceLostWithinAPieceIsTheEnginesLoss) {
  for (const bool is_first : {true, false}) {
    std::atomic<int> left = -1;
    std::atomic<bool> is_lost = false;
    const HookedDevice device({.before = [&] {
      if (left-- == 0) is_lost = true;
      return is_lost ? absl::UnavailableError("fell off the bus")
                     : absl::OkStatus();
    }});
    EngineSetup setup = InPieces({3}, is_first ? Devices{&device, &LocalCpu()}
                                               : Devices{&LocalCpu(), &device});
    std::vector<absl::Status> told;
    setup.on_device_lost = [&told](const absl::Status& error) {
      told.push_back(error);
      return absl::UnavailableError("the device is lost");
    };
    Load("gemma_q5_0", setup);
    left = 150;
    const GenerateOptions request = Greedy(RandomIds(90, 1), 3);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Generate(*engine_, request).status,
                absl::UnavailableError("the device is lost"));
    }
    engine_.reset();
    EXPECT_THAT(told, ElementsAre(absl::UnavailableError("fell off the bus")));
  }
}

TEST_F(PipelineTest, TheAgeOfAStepWhosePartHangsGrows) {
  std::atomic<int64_t> seconds = 1;
  std::atomic<bool> hangs = false;
  absl::Notification is_hanging;
  absl::Notification go_on;
  const HookedDevice second({.before = [&] {
    if (hangs.exchange(false)) {
      is_hanging.Notify();
      go_on.WaitForNotification();
    }
    return absl::OkStatus();
  }});
  EngineSetup setup = InPieces({1}, {&apart_[0], &second});
  setup.clock = [&seconds] { return absl::FromUnixSeconds(seconds); };
  Load("llama_half", setup);
  hangs = true;
  const auto sink = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine_->Submit(Greedy(RandomIds(60, 1), 2), sink).ok());
  is_hanging.WaitForNotification();
  seconds += 31;
  EXPECT_EQ(engine_->StepAge(), absl::Seconds(31));
  go_on.Notify();
  EXPECT_TRUE(sink->Await().status.ok());
}

// A device that says what hardware it is.
class NamedDevice final : public HookedDevice {
 public:
  explicit NamedDevice(std::string id) : HookedDevice({}), id_(std::move(id)) {}
  std::string unique_id() const override { return id_; }

 private:
  const std::string id_;
};

TEST_F(PipelineTest, EveryDeviceHasALaneAndTheHostTheFirst) {
  const auto cpu = OpenComputeDevice("cpu");
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const NamedDevice one("GPU-1"), same("GPU-1"), other("GPU-2");
  const auto lanes = [](const Devices& devices) {
    std::vector<EnginePart> parts;
    for (const ComputeDevice* device : devices)
      parts.push_back({device, 0, 1, {}});
    return LanesOf(parts);
  };
  EXPECT_THAT(lanes({&one, &other, &one}), ElementsAre(0, 1, 0));
  EXPECT_THAT(lanes({&one, &same}), ElementsAre(0, 0));
  EXPECT_THAT(lanes({&apart_[0], &apart_[1]}), ElementsAre(0, 1));
  EXPECT_THAT(lanes({nullptr, cpu->get(), &LocalCpu()}), ElementsAre(0, 0, 0));
  EXPECT_THAT(lanes({&one, nullptr, &other}), ElementsAre(1, 0, 2));
}

}  // namespace
}  // namespace plimsoll::worker
