// What becomes of a line for which there is no memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "services/host/log.h"
#include "tests/failing_new.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FailEachAllocation;

TEST(LogMemoryTest, ALineWithoutMemoryIsDroppedAndCounted) {
  const int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  {
    const auto log = LogThread::Start({}, file);
    ASSERT_TRUE(log.ok()) << log.status();
    // It is too long for what a slot of the queue holds.
    const std::vector<LogField> fields = {{"error", std::string(1'000, 'x')}};
    int64_t n_dropped = DroppedLogLines();
    const int64_t n_failed = FailEachAllocation(
        [&] { EXPECT_NO_THROW(Log(LogLevel::kInfo, "m", fields)); },
        [&](bool has_failed) {
          if (has_failed) ++n_dropped;
          EXPECT_EQ(DroppedLogLines(), n_dropped);
        });
    EXPECT_GT(n_failed, 2);
  }
  close(file);
}

}  // namespace
}  // namespace plimsoll::services
