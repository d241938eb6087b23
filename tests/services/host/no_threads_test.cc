// What services do where the system refuses threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "services/gateway/worker_set.h"
#include "services/host/check_threads.h"
#include "services/host/log.h"
#include "services/server/server.h"
#include "services/worker/process/device_guard.h"
#include "tests/failing_threads.h"

namespace plimsoll::services {
namespace {

using plimsoll::testing::AllowThreads;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

class NoThreadsTest : public ::testing::Test {
 protected:
  ~NoThreadsTest() override { AllowThreads(-1); }
};

TEST_F(NoThreadsTest, AsManyAsThereAreAreEnoughAndOneLessIsNot) {
  AllowThreads(5);
  EXPECT_TRUE(CheckThreads(5).ok());
  AllowThreads(4);
  const absl::Status status = CheckThreads(5);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("needs 5 more threads and gets 4"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("pids.max"));
  AllowThreads(0);
  EXPECT_TRUE(CheckThreads(0).ok());
}

TEST_F(NoThreadsTest, ASetOfWorkersThatGetsOneThreadEndsIt) {
  AllowThreads(1);
  // A name that is none is not found at once.
  EXPECT_THROW(WorkerSet({.workers = {}, .name = "no address"}),
               std::system_error);
}

TEST_F(NoThreadsTest, ALogThatGetsNoneDoesNotStart) {
  AllowThreads(0);
  const auto log = LogThread::Start({}, STDERR_FILENO);
  EXPECT_TRUE(absl::IsResourceExhausted(log.status())) << log.status();
  // Its lines are written at once, so none is lost.
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "m");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(" INFO m\n"));
}

TEST_F(NoThreadsTest, AServerThatGetsTooFewDoesNotStart) {
  CallGate gate;
  AllowThreads(GrpcThreads() - 1);
  const auto server = Server::Start({}, {}, gate);
  EXPECT_TRUE(absl::IsResourceExhausted(server.status())) << server.status();
}

TEST_F(NoThreadsTest, ADeviceThatNobodyCanAskMayBeTheLostOne) {
  std::atomic<int> n_asked = 0;
  const std::vector<std::function<absl::Status()>> checks(3, [&n_asked] {
    ++n_asked;
    return absl::OkStatus();
  });
  AllowThreads(2);
  EXPECT_THAT(FindLost(checks, kPatience), ElementsAre(2));
  EXPECT_EQ(n_asked, 2);
  AllowThreads(0);
  EXPECT_THAT(FindLost(checks, kPatience), ElementsAre(0, 1, 2));
  EXPECT_EQ(n_asked, 2);
}

}  // namespace
}  // namespace plimsoll::services
