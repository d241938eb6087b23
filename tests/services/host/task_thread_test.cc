#include "services/host/task_thread.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/synchronization/notification.h"

namespace plimsoll::services {
namespace {

TEST(TaskThreadTest, RunsTasksInTheirOrder) {
  std::vector<int> ran;
  absl::Notification last;
  {
    TaskThread thread;
    for (int i = 0; i < 100; ++i) {
      thread.Run([&ran, i] { ran.push_back(i); });
    }
    thread.Run([&last] { last.Notify(); });
    last.WaitForNotification();
  }
  ASSERT_EQ(ran.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

TEST(TaskThreadTest, RunsWhatIsLeftBeforeItEnds) {
  absl::Notification go;
  int n_run = 0;
  {
    TaskThread thread;
    thread.Run([&go] { go.WaitForNotification(); });
    for (int i = 0; i < 3; ++i) thread.Run([&n_run] { ++n_run; });
    go.Notify();
  }
  EXPECT_EQ(n_run, 3);
}

TEST(TaskThreadTest, ATaskMayGiveAnother) {
  int n_run = 0;
  {
    TaskThread thread;
    thread.Run([&] { thread.Run([&n_run] { ++n_run; }); });
  }
  EXPECT_EQ(n_run, 1);
}

TEST(BackgroundTest, AStartThatLacksAThreadIsAnError) {
  const absl::Status status = NeedsThreads([]() -> absl::Status {
    throw std::system_error(EAGAIN, std::generic_category());
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(NeedsThreads([] { return absl::OkStatus(); }).ok());
}

}  // namespace
}  // namespace plimsoll::services
