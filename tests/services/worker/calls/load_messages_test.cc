#include "services/worker/calls/load_messages.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/failing_new.h"
#include "tests/sanitized.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FailEachAllocation;

LoadReport ReportWithPlan(int64_t bytes_done) {
  planner::MemoryPlan plan = {};
  plan.regions.resize(8);
  for (planner::Region& region : plan.regions) {
    region.name = "weights";
    region.formula = "a formula that is too long to be kept without memory";
  }
  return {.state = ModelState::kLoading,
          .bytes_done = bytes_done,
          .parts = {{.device_id = "test/cpu", .n_layers = 2, .plan = plan}}};
}

// Everything that waits, as text.
std::string Waiting(LoadMessages messages) {
  std::string text;
  for (; !messages.empty(); messages.PopFront()) {
    text += messages.front().DebugString() + "\n";
  }
  return text;
}

TEST(LoadMessagesTest, ALaterReportIsMergedIntoTheOneThatWaits) {
  LoadMessages messages;
  for (int i = 0; i < 4; ++i) messages.Add(ReportWithPlan(i));
  EXPECT_EQ(messages.front().bytes_done(), 0u);
  messages.PopFront();
  EXPECT_EQ(messages.front().bytes_done(), 3u);
  messages.PopFront();
  EXPECT_TRUE(messages.empty());
}

TEST(LoadMessagesTest, ThePlanIsSaidOnce) {
  LoadMessages messages;
  messages.Add({.state = ModelState::kReserving});
  for (int i = 0; i < 3; ++i) messages.Add(ReportWithPlan(i));
  EXPECT_FALSE(messages.front().has_plan());
  messages.PopFront();
  EXPECT_EQ(messages.front().plan().regions_size(), 8);
  messages.PopFront();
  messages.Add(ReportWithPlan(9));
  EXPECT_FALSE(messages.front().has_plan());
}

// An empty message that nobody sends would keep its call from its end.
TEST(LoadMessagesTest, AReportWithoutMemoryChangesNothing) {
  if (plimsoll::testing::kIsSanitized) {
    GTEST_SKIP() << "Protocol Buffers leak when an allocation fails";
  }
  const LoadReport report = ReportWithPlan(1);
  for (int n_before = 0; n_before < 3; ++n_before) {
    LoadMessages messages;
    for (int i = 0; i < n_before; ++i) {
      messages.Add({.state = ModelState::kReserving});
    }
    const std::string before = Waiting(messages);
    const int64_t n_failed =
        FailEachAllocation([&] { messages.Add(report); },
                           [&](bool has_failed) {
                             EXPECT_EQ(Waiting(messages) == before, has_failed);
                           });
    EXPECT_GT(n_failed, 16);
  }
}

}  // namespace
}  // namespace plimsoll::services
