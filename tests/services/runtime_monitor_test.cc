// What a process takes beside its plans is measured, kept, and never planned
// too small.
#include "services/worker/runtime_monitor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>

#include "services/common/runtime_store.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker_fixture.h"
#include "worker/device.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A process whose memory is what the test says.
class RuntimeMonitorTest : public ::testing::Test {
 protected:
  std::unique_ptr<RuntimeMonitor> Start() {
    return std::make_unique<RuntimeMonitor>(RuntimeMonitor::Options{
        .folder = folder_.File("profiles"),
        .key = {.device = "cpu X", .driver = "Linux", .build = "1"},
        .load = {.n_threads = 2},
        .memory = {.resident_bytes = [this] { return resident_.load(); },
                   .peak_bytes = [this] { return peak_.load(); },
                   .reset_peak =
                       [this] {
                         if (can_reset_) peak_ = resident_.load();
                         return can_reset_.load();
                       }},
        .device = planner::CommittedCpuProfile,
        .interval = absl::InfiniteDuration()});
  }

  void Hold(int64_t mib) {
    resident_ = mib * kMiB;
    peak_ = std::max(peak_.load(), resident_.load());
  }

  // Of a model of 100 MiB, with what the process takes beside it.
  void Load(RuntimeMonitor& monitor, int64_t runtime_mib) {
    monitor.BeginChange();
    Hold(100 + runtime_mib);
    monitor.EndChange(100 * kMiB);
  }

  testing::TemporaryFolder folder_;
  std::atomic<int64_t> resident_ = 10 * kMiB;
  std::atomic<int64_t> peak_ = 10 * kMiB;
  std::atomic<bool> can_reset_ = true;
};

int64_t Mib(const RuntimeMonitor& monitor) {
  return monitor.Profile().runtime_bytes / kMiB;
}

TEST_F(RuntimeMonitorTest, TheNextProcessPlansWithWhatThisOneMeasured) {
  {
    const auto first = Start();
    EXPECT_EQ(first->Profile().runtime_basis, planner::Basis::kEstimated);
    EXPECT_EQ(Mib(*first), 28);
    Load(*first, 20);
    // Plans of one process agree.
    EXPECT_EQ(first->Profile().runtime_basis, planner::Basis::kEstimated);
    EXPECT_EQ(Mib(*first), 28);
  }
  const auto second = Start();
  EXPECT_EQ(second->Profile().runtime_basis, planner::Basis::kMeasured);
  EXPECT_EQ(Mib(*second), 22);
  // A smaller figure changes nothing.
  resident_ = peak_ = 10 * kMiB;
  Load(*second, 15);
  EXPECT_EQ(Mib(*second), 22);
  EXPECT_EQ(Mib(*Start()), 22);
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
  EXPECT_EQ(Mib(*monitor), 42);
  monitor->Sample();
  EXPECT_EQ(n_published, 1);
  monitor->SetListener(nullptr);
  EXPECT_EQ(Mib(*Start()), 42);
}

TEST_F(RuntimeMonitorTest, APeakBetweenTwoSamplesCounts) {
  auto monitor = Start();
  Load(*monitor, 12);
  Hold(100 + 25);
  Hold(100 + 12);
  monitor->Sample();
  monitor.reset();
  EXPECT_EQ(Mib(*Start()), 27);
}

TEST_F(RuntimeMonitorTest, MemoryOfModelsThatComeAndGoIsNoOverhead) {
  for (const bool can_reset : {true, false}) {
    can_reset_ = can_reset;
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
    EXPECT_EQ(Mib(*monitor), can_reset ? 28 : 15);
    monitor.reset();
    EXPECT_EQ(Mib(*Start()), 15);
    peak_ = resident_ = 10 * kMiB;
  }
}

TEST_F(RuntimeMonitorTest, ALargerLoadIsPlannedWithMore) {
  {
    const auto small = Start();
    Load(*small, 20);
  }
  const auto monitor = Start();
  const int64_t before = monitor->Profile().runtime_bytes;
  monitor->Expect({.n_slots = 64, .n_rows = 2'048, .n_vocab = 262'144});
  const int64_t after = monitor->Profile().runtime_bytes;
  EXPECT_GE(after, before + 4 * kMiB);
  monitor->Expect({.n_slots = 1});  // plans that were made stay covered
  EXPECT_EQ(monitor->Profile().runtime_bytes, after);
}

TEST_F(RuntimeMonitorTest, WithoutAFolderItLivesAndMeasures) {
  std::ofstream(folder_.File("profiles")) << "in the way";
  {
    const auto monitor = Start();
    Load(*monitor, 50);
    EXPECT_EQ(Mib(*monitor), 52);
  }
  EXPECT_EQ(Mib(*Start()), 28);
}

TEST(OwnMemoryTest, SaysWhatTheProcessHolds) {
  const ProcessMemory memory = OwnMemory();
  EXPECT_GT(memory.resident_bytes(), kMiB);
  // The kernel's counters are not exact.
  EXPECT_GE(memory.peak_bytes() + 4 * kMiB, memory.resident_bytes());
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
                            .interval = absl::InfiniteDuration()});
    TestPlanner planner;
    TestWorker worker(&planner, std::nullopt, &monitor);
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
