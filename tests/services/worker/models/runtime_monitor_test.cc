// What a process takes beside its plans is measured, kept, and never planned
// too small.
#include "services/worker/models/runtime_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "services/host/runtime/runtime_store.h"
#include "tests/sanitized.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker/worker_fixture.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

// A process whose memory is what the test says.
class RuntimeMonitorTest : public ::testing::Test {
 protected:
  std::unique_ptr<RuntimeMonitor> Start() {
    return std::make_unique<RuntimeMonitor>(RuntimeMonitor::Options{
        .folder = folder_.File("profiles"),
        .key = {.device = "cpu X", .driver = "Linux", .build = "1"},
        .load = {.n_threads = 2},
        .memory = {.resident_bytes = [this] { return resident_.load(); }},
        .device = planner::CommittedCpuProfile,
        .traffic = [this] { return messages_.traffic(); },
        .wall_clock = [] { return absl::FromUnixSeconds(1'769'860'800); },
        .interval = absl::InfiniteDuration()});
  }

  void Hold(int64_t mib) { resident_ = mib * kMiB; }

  // Loads a model of 100 MiB; the process takes `runtime_mib` beside it.
  void Load(RuntimeMonitor& monitor, int64_t runtime_mib) {
    monitor.BeginChange();
    Hold(100 + runtime_mib);
    monitor.EndChange(100 * kMiB);
  }

  // A call that has ended, and an interval in which there was none.
  void Serve(RuntimeMonitor& monitor) {
    EXPECT_TRUE(messages_.Take("a", 1).ok());
    monitor.Sample();
    monitor.Sample();
  }

  testing::TemporaryFolder folder_;
  std::atomic<int64_t> resident_ = 10 * kMiB;
  ByteBudget messages_{kMiB};
};

int64_t Mib(const RuntimeMonitor& monitor) {
  return monitor.Profile().runtime_bytes / kMiB;
}

TEST_F(RuntimeMonitorTest, TheNextProcessPlansWithWhatThisOneMeasured) {
  {
    const auto first = Start();
    EXPECT_EQ(first->Profile().runtime_basis, planner::Basis::kEstimated);
    EXPECT_EQ(Mib(*first), 36);
    Load(*first, 20);
    // Plans of one process agree.
    EXPECT_EQ(first->Profile().runtime_basis, planner::Basis::kEstimated);
    EXPECT_EQ(Mib(*first), 36);
  }
  const auto second = Start();
  EXPECT_EQ(second->Profile().runtime_basis, planner::Basis::kMeasured);
  EXPECT_EQ(Mib(*second), 24);
  EXPECT_THAT(second->Profile().runtime_note,
              HasSubstr("measured on 2026-01-31 12:00 UTC"));
}

TEST_F(RuntimeMonitorTest, NoiseChangesNoPlan) {
  Load(*Start(), 20);
  const std::string note = Start()->Profile().runtime_note;
  for (const int64_t runtime_mib : {20, 15, 21, 18, 13}) {
    Hold(10);
    const auto monitor = Start();
    EXPECT_EQ(Mib(*monitor), 24);
    Load(*monitor, runtime_mib);
    Serve(*monitor);
    EXPECT_EQ(Mib(*monitor), 24);
    EXPECT_EQ(monitor->Profile().runtime_note, note);
  }
}

TEST_F(RuntimeMonitorTest, MoreThanWasPlannedIsPublishedAtOnce) {
  const auto monitor = Start();
  std::atomic<int> n_published = 0;
  monitor->SetListener([&] {
    ++n_published;
    EXPECT_EQ(monitor->Profile().runtime_basis, planner::Basis::kMeasured);
  });
  Load(*monitor, 28);
  EXPECT_EQ(n_published, 0);
  Hold(100 + 40);
  monitor->Sample();
  EXPECT_EQ(n_published, 1);
  EXPECT_EQ(Mib(*monitor), 44);
  monitor->Sample();
  EXPECT_EQ(n_published, 1);
  monitor->SetListener(nullptr);
  EXPECT_EQ(Mib(*Start()), 44);
}

TEST_F(RuntimeMonitorTest, BuffersOfCallsAreNoRuntime) {
  Load(*Start(), 20);
  Hold(10);
  auto monitor = Start();
  Load(*monitor, 20);
  {
    const auto share = messages_.Take("a", kMiB);
    ASSERT_TRUE(share.ok());
    Hold(100 + 400);
    monitor->Sample();
    monitor->Sample();
  }
  // The call has ended; its reply may still be on its way.
  monitor->Sample();
  Hold(100 + 20);
  monitor->Sample();
  EXPECT_EQ(Mib(*monitor), 24);
  // A call that came and went between two samples.
  EXPECT_TRUE(messages_.Take("a", kMiB).ok());
  Hold(100 + 400);
  monitor->Sample();
  Hold(100 + 20);
  monitor.reset();
  EXPECT_EQ(Mib(*Start()), 24);
}

TEST_F(RuntimeMonitorTest, AReplyThatIsNotSentYetIsNoRuntime) {
  Load(*Start(), 20);
  Hold(10);
  auto monitor = Start();
  Load(*monitor, 20);
  {
    // It was answered before; gRPC has not sent the reply.
    const ByteBudget::Share unread = messages_.Enter("a");
    Hold(100 + 400);
    for (int i = 0; i < 3; ++i) monitor->Sample();
    EXPECT_EQ(Mib(*monitor), 24);
  }
  monitor->Sample();
  Hold(100 + 20);
  monitor->Sample();
  monitor.reset();
  EXPECT_EQ(Mib(*Start()), 24);
}

TEST_F(RuntimeMonitorTest, AProcessThatStopsIsMeasuredAtOnce) {
  auto monitor = Start();
  monitor->BeginChange();
  EXPECT_TRUE(messages_.Take("a", 1).ok());
  Hold(100 + 20);
  monitor->EndChange(100 * kMiB);
  EXPECT_TRUE(messages_.Take("a", 1).ok());
  monitor->SampleStopped();
  monitor.reset();
  EXPECT_EQ(Mib(*Start()), 24);
}

TEST_F(RuntimeMonitorTest, AFigureThatIsFarTooLargeIsForgotten) {
  Load(*Start(), 400);
  Hold(10);
  const auto monitor = Start();
  EXPECT_EQ(Mib(*monitor), 404);
  Load(*monitor, 20);
  // A process that has served nothing holds too little.
  monitor->Sample();
  EXPECT_EQ(Mib(*monitor), 404);
  for (int i = 0; i < 8; ++i) Serve(*monitor);
  EXPECT_LE(Mib(*monitor), 32);
  EXPECT_GE(Mib(*monitor), 24);
  EXPECT_EQ(Mib(*Start()), Mib(*monitor));
}

TEST_F(RuntimeMonitorTest, MemoryOfModelsThatComeAndGoIsNoOverhead) {
  auto monitor = Start();
  Load(*monitor, 12);
  // A load that failed after it had allocated.
  monitor->BeginChange();
  Hold(500);
  monitor->Sample();
  Hold(100 + 12);
  monitor->EndChange(0);
  // Another one, then the first one leaves.
  monitor->BeginChange();
  Hold(100 + 200 + 13);
  monitor->EndChange(200 * kMiB);
  monitor->BeginChange();
  Hold(200 + 13);
  monitor->EndChange(-100 * kMiB);
  EXPECT_EQ(Mib(*monitor), 36);
  monitor.reset();
  EXPECT_EQ(Mib(*Start()), 16);
}

TEST_F(RuntimeMonitorTest, ALargerLoadIsPlannedWithMoreWhileItIsExpected) {
  Load(*Start(), 20);
  const auto monitor = Start();
  const int64_t before = monitor->Profile().runtime_bytes;
  RuntimeMonitor::Expectation kept;
  {
    // One model is loaded, another is refused.
    kept =
        monitor->Expect({.n_slots = 64, .n_rows = 2'048, .n_vocab = 262'144});
    const int64_t after = monitor->Profile().runtime_bytes;
    EXPECT_GE(after, before + 4 * kMiB);
    const auto refused = monitor->Expect({.n_slots = 4'096});
    EXPECT_GT(monitor->Profile().runtime_bytes, before + 200 * kMiB);
  }
  // What a plan needs does not depend on the models beside it.
  {
    const auto small = monitor->Expect({.n_slots = 1});
    EXPECT_EQ(monitor->Profile().runtime_bytes, before);
  }
  kept = RuntimeMonitor::Expectation();
  EXPECT_EQ(monitor->Profile().runtime_bytes, before);
}

TEST_F(RuntimeMonitorTest, WhatModelsInMemoryMayTakeIsNotHeldAgainstTheFigure) {
  Load(*Start(), 20);
  Hold(10);
  const auto monitor = Start();
  {
    const auto large = monitor->Expect({.n_slots = 128});
    Load(*monitor, 20 + 8);
    EXPECT_EQ(Mib(*monitor), 32);
  }
  EXPECT_EQ(Mib(*monitor), 24);
  EXPECT_EQ(Mib(*Start()), 24);
}

TEST_F(RuntimeMonitorTest, NothingIsMeasuredWhileAModelIsMapped) {
  const auto monitor = Start();
  {
    const auto mapped = monitor->Expect({}, /*is_mapped=*/true);
    Load(*monitor, 900);
    EXPECT_EQ(Mib(*monitor), 36);
  }
  monitor->Sample();
  EXPECT_GT(Mib(*monitor), 900);
}

TEST_F(RuntimeMonitorTest, WithoutAFolderItLivesAndMeasures) {
  std::ofstream(folder_.File("profiles")) << "in the way";
  {
    const auto monitor = Start();
    Load(*monitor, 50);
    EXPECT_EQ(Mib(*monitor), 54);
  }
  EXPECT_EQ(Mib(*Start()), 36);
}

TEST(OwnMemoryTest, SaysWhatTheProcessHolds) {
  const ProcessMemory memory = OwnMemory();
  const int64_t before = memory.resident_bytes();
  EXPECT_GT(before, kMiB);
  // Small blocks that were freed are given back, too.
  {
    std::vector<std::string> blocks(64 << 10, std::string(1'000, 'x'));
    EXPECT_GT(memory.resident_bytes(), before + 60 * kMiB);
  }
  // AddressSanitizer keeps what was freed for a while.
  if (plimsoll::testing::kIsSanitized) return;
  EXPECT_LT(memory.resident_bytes(), before + 8 * kMiB);
}

TEST(RuntimeOfAWorkerTest, IsMeasuredOverALoadAndAnUnload) {
  testing::TemporaryFolder folder;
  const planner::RuntimeKey key = {"cpu", "test", "1"};
  {
    RuntimeMonitor monitor({.folder = folder.File("profiles"),
                            .key = key,
                            .load = {},
                            .memory = OwnMemory(),
                            .device = worker::LocalCpuProfile,
                            .traffic = [] { return ByteBudget::Traffic(); },
                            .interval = absl::InfiniteDuration()});
    TestPlanner planner;
    TestWorker worker({.planner = &planner, .runtime = &monitor});
    ASSERT_TRUE(worker.Load("a").ok());
    ASSERT_TRUE(worker.Unload("a").ok());
  }
  const auto kept = RuntimeStore(folder.File("profiles")).Read(key);
  ASSERT_TRUE(kept.ok() && kept->has_value()) << kept.status();
  EXPECT_GT((*kept)->bytes, kMiB);
  EXPECT_LT((*kept)->bytes, worker::TotalMemoryBytes());
}

}  // namespace
}  // namespace plimsoll::services
