#include "services/worker/process/worker_reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "services/host/log.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WorkerReloadTest : public ::testing::Test {
 protected:
  WorkerReloadTest() {
    Write("");
    reload_.read_again = [this] { return Read(); };
    reload_.in_effect = Read().value().settings;
  }

  // Writes the lines of [worker] beside those of its models.
  void Write(const std::string& lines) { WriteWithModels("", lines); }
  void WriteWithModels(const std::string& more_models,
                       const std::string& lines) {
    std::ofstream(config_) << "[worker]\non-demand = true\nmodel = ['a="
                           << worker_.file.path()
                           << "', 'b=" << worker_.file.path() << "', "
                           << more_models << "]\n"
                           << lines;
  }

  absl::StatusOr<WorkerFlags> Read() {
    std::string name = "plimsoll-worker";
    std::string config = "--config=" + config_;
    std::vector<char*> argv = {name.data(), config.data()};
    return ReadWorkerFlagsAgain(2, argv.data());
  }

  // Reads the file again and returns the log.
  std::string Reload() {
    ::testing::internal::CaptureStderr();
    ReloadWorker(reload_, *worker_.registry, log_);
    return ::testing::internal::GetCapturedStderr();
  }

  ModelInfo ModelA() { return worker_.registry->List().front(); }

  // Whether the end of a request has a line in the log.
  bool LogsRequests() {
    ::testing::internal::CaptureStderr();
    log_.OnRequestEnd("a", {});
    return !::testing::internal::GetCapturedStderr().empty();
  }

  const testing::TemporaryFolder folder_;
  const std::string config_ = folder_.File("a.toml");
  TestWorker worker_{
      {.change = [](WorkerOptions& options) { options.on_demand = true; }}};
  LogObserver log_{LogObserver::Requests::kNotLogged};
  WorkerReload reload_;
};

TEST_F(WorkerReloadTest, TheLevelOfTheLogChanges) {
  const auto logs = [] {
    ::testing::internal::CaptureStderr();
    Log(LogLevel::kInfo, "a line");
    return !::testing::internal::GetCapturedStderr().empty();
  };
  Write("log-level = 'error'\n");
  Reload();
  EXPECT_FALSE(logs());
  Write("");
  EXPECT_THAT(Reload(), HasSubstr("changed=log-level"));
  EXPECT_TRUE(logs());
}

TEST_F(WorkerReloadTest, WhatMayChangeChanges) {
  EXPECT_FALSE(LogsRequests());
  Write("pin = 'a'\nkeep-alive = 60\nlog-requests = true\n");
  EXPECT_THAT(Reload(), AllOf(HasSubstr("changed=pin,keep-alive,log-requests"),
                              Not(HasSubstr("restart"))));
  EXPECT_TRUE(ModelA().is_pinned);
  EXPECT_EQ(ModelA().keep_alive, absl::Seconds(60));
  EXPECT_TRUE(LogsRequests());
  Write("");
  EXPECT_THAT(Reload(), HasSubstr("changed=pin,keep-alive,log-requests"));
  EXPECT_FALSE(ModelA().is_pinned);
  EXPECT_EQ(ModelA().keep_alive, absl::InfiniteDuration());
  EXPECT_FALSE(LogsRequests());
}

TEST_F(WorkerReloadTest, ABadFileChangesNothing) {
  for (const std::string bad : {"pin = 'c'\n", "slots = 0\n", "slotz = 1\n"}) {
    Write("keep-alive = 60\n" + bad);
    EXPECT_THAT(Reload(), HasSubstr("ERROR the settings are bad"));
    EXPECT_EQ(ModelA().keep_alive, absl::InfiniteDuration());
  }
}

TEST_F(WorkerReloadTest, WithoutDemandPinsAndKeepAliveWaitForARestart) {
  TestWorker lazy;
  Write("pin = 'a'\nkeep-alive = 60\nlog-requests = true\n");
  ::testing::internal::CaptureStderr();
  ReloadWorker(reload_, *lazy.registry, log_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("changed=log-requests\n"),
                    HasSubstr("keys=pin,keep-alive\n")));
  EXPECT_FALSE(lazy.registry->List().front().is_pinned);
}

TEST_F(WorkerReloadTest, ModelsAreAdded) {
  EXPECT_EQ(worker_.registry->List().size(), 2u);
  WriteWithModels("'c=c.gguf'", "");
  EXPECT_THAT(Reload(), HasSubstr("changed=model"));
  EXPECT_EQ(worker_.registry->List().size(), 3u);
  Write("");
  EXPECT_THAT(Reload(), HasSubstr("ERROR a setting could not be changed "
                                  "key=model error=\"a model is gone"));
  EXPECT_EQ(worker_.registry->List().size(), 3u);
}

TEST_F(WorkerReloadTest, OtherSettingsWaitForARestart) {
  Write("slots = 8\nkeep-alive = 60\n");
  EXPECT_THAT(Reload(),
              AllOf(HasSubstr("changed=keep-alive"), HasSubstr("keys=slots")));
}

}  // namespace
}  // namespace plimsoll::services
