#include "services/host/file_watch.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

class FileWatchTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  // The time of the next look.
  absl::Time Later() { return now_ += PollTimer::kInterval; }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("file");
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(FileWatchTest, AFileThatStaysHasNotChanged) {
  Write("one");
  FileWatch watch(path_, now_);
  EXPECT_FALSE(watch.HasChanged(Later()));
  EXPECT_FALSE(watch.HasChanged(Later()));
}

TEST_F(FileWatchTest, AChangeIsToldOnce) {
  Write("one");
  FileWatch watch(path_, now_);
  Write("and two");
  EXPECT_TRUE(watch.HasChanged(Later()));
  EXPECT_FALSE(watch.HasChanged(Later()));
}

TEST_F(FileWatchTest, TheFileIsLookedAtNoMoreOftenThanAnInterval) {
  Write("one");
  FileWatch watch(path_, now_);
  Write("and two");
  const absl::Duration tick = absl::Nanoseconds(1);
  EXPECT_FALSE(watch.HasChanged(now_ + PollTimer::kInterval - tick));
  EXPECT_TRUE(watch.HasChanged(now_ + PollTimer::kInterval));
}

TEST_F(FileWatchTest, AClockThatWasSetBackDoesNotStopTheLooking) {
  Write("one");
  FileWatch watch(path_, now_);
  Write("and two");
  EXPECT_TRUE(watch.HasChanged(now_ - absl::Hours(1)));
}

TEST_F(FileWatchTest, AFileThatGoesOrComesHasChanged) {
  FileWatch watch(path_, now_);
  EXPECT_FALSE(watch.HasChanged(Later()));
  Write("one");
  EXPECT_TRUE(watch.HasChanged(Later()));
  std::remove(path_.c_str());
  EXPECT_TRUE(watch.HasChanged(Later()));
  EXPECT_FALSE(watch.HasChanged(Later()));
}

}  // namespace
}  // namespace plimsoll::services
