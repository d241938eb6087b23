#include "services/planner/planner_reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/host/log.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/planner/ledger_fixture.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PlannerReloadTest : public LedgerFixture {
 protected:
  PlannerReloadTest() {
    std::ofstream(model_, std::ios::binary)
        << planner::BuilderOf(planner::TinyModel()).Build();
    Write("model = ['a=" + model_ + "']\n");
    const auto flags = Read();
    EXPECT_TRUE(flags.ok()) << flags.status();
    in_effect_ = flags->settings;
    planner_.SetModels(ReadPlannerModels(flags->options.models).value());
  }

  // Writes the lines of [planner].
  void Write(const std::string& lines) {
    std::ofstream(config_) << "[planner]\n" << lines;
  }

  absl::StatusOr<PlannerFlags> Read() {
    std::string name = "plimsoll-planner";
    std::string config = "--config=" + config_;
    std::vector<char*> argv = {name.data(), config.data()};
    return ReadPlannerFlagsAgain(2, argv.data());
  }

  // Reads the file again and returns the log.
  std::string Reload() {
    ::testing::internal::CaptureStderr();
    ReloadPlanner(Read(), {planner_, ledger_}, in_effect_);
    return ::testing::internal::GetCapturedStderr();
  }

  bool Knows(const std::string& model) const {
    v1::DescribeModelRequest request;
    request.mutable_source()->set_model(model);
    v1::DescribeModelResponse response;
    return planner_.DescribeModel(request, response).ok();
  }

  const testing::TemporaryFolder folder_;
  const std::string model_ = folder_.File("a.gguf");
  const std::string config_ = folder_.File("a.toml");
  Settings in_effect_;
  Planner planner_{{}, ledger_};
};

TEST_F(PlannerReloadTest, ModelsComeAndGo) {
  EXPECT_TRUE(Knows("a"));
  Write("model = 'b=" + model_ + "'\n");
  EXPECT_THAT(Reload(), HasSubstr("changed=model"));
  EXPECT_TRUE(Knows("b"));
  EXPECT_FALSE(Knows("a"));
}

TEST_F(PlannerReloadTest, AModelThatCannotBeReadChangesNothing) {
  Write(absl::StrCat("model = ['b=", model_, "', 'c=", folder_.File("no"),
                     "']\n"));
  EXPECT_THAT(Reload(), AllOf(HasSubstr("ERROR a setting could not be changed "
                                        "key=model"),
                              HasSubstr("model c: ")));
  EXPECT_TRUE(Knows("a"));
  EXPECT_FALSE(Knows("b"));
}

TEST_F(PlannerReloadTest, HeadroomsChange) {
  const auto headroom = [this] {
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(ledger_.ListDevices(devices).ok());
    return devices.devices(0).headroom_bytes();
  };
  const std::string model = "model = ['a=" + model_ + "']\n";
  EXPECT_EQ(headroom(), 0u);
  Write(model + "headroom = ['1KiB', 'cpu=3KiB']\n");
  EXPECT_THAT(Reload(), HasSubstr("changed=headroom"));
  EXPECT_EQ(headroom(), 3'072u);
  Write(model + "headroom = '1KiB'\n");
  Reload();
  EXPECT_EQ(headroom(), 1'024u);
  Write(model + "headroom = 'cpu=some'\n");
  EXPECT_THAT(Reload(), HasSubstr("ERROR the settings are bad"));
  EXPECT_EQ(headroom(), 1'024u);
  Write(model);
  Reload();
  EXPECT_EQ(headroom(), 0u);
}

TEST_F(PlannerReloadTest, SizesOfDevicesChange) {
  const auto size = [this] { return ledger_.FindDevice("cpu")->profile; };
  const std::string model = "model = ['a=" + model_ + "']\n";
  Write(model + "device-memory = 'cpu=1MiB'\n");
  EXPECT_THAT(Reload(), HasSubstr("changed=device-memory"));
  EXPECT_EQ(size().total_bytes, 1 << 20);
  Write(model + "device-memory = 'cpu=0'\n");
  EXPECT_THAT(Reload(), HasSubstr("ERROR the settings are bad"));
  EXPECT_EQ(size().total_bytes, 1 << 20);
  Write(model);
  Reload();
  EXPECT_EQ(size().total_bytes, kTotal);
}

TEST_F(PlannerReloadTest, TheLevelOfTheLogChanges) {
  const auto logs = [] {
    ::testing::internal::CaptureStderr();
    Log(LogLevel::kInfo, "a line");
    return !::testing::internal::GetCapturedStderr().empty();
  };
  const std::string model = "model = ['a=" + model_ + "']\n";
  EXPECT_TRUE(logs());
  Write(model + "log-level = 'warning'\n");
  Reload();
  EXPECT_FALSE(logs());
  Write(model);
  EXPECT_THAT(Reload(), HasSubstr("changed=log-level"));
  EXPECT_TRUE(logs());
}

TEST_F(PlannerReloadTest, ABadFileChangesNothing) {
  Write("model = ['b=" + model_ + "']\nlease-ttl = 0\n");
  EXPECT_THAT(Reload(), AllOf(HasSubstr("ERROR the settings are bad"),
                              HasSubstr("a.toml:3: --lease-ttl: ")));
  EXPECT_TRUE(Knows("a"));
  EXPECT_FALSE(Knows("b"));
}

TEST_F(PlannerReloadTest, TimesThatDoNotGoTogetherChangeNothing) {
  Write("lease-ttl = 20\nrecovery-time = 10\n");
  EXPECT_THAT(Reload(), HasSubstr("ERROR the settings are bad"));
  EXPECT_TRUE(Knows("a"));
}

TEST_F(PlannerReloadTest, OtherSettingsWaitForARestart) {
  Write("model = ['a=" + model_ + "']\nlease-ttl = 20\nfirst = true\n");
  const std::string log = Reload();
  EXPECT_THAT(
      log, AllOf(HasSubstr("keys=first,lease-ttl"), Not(HasSubstr("ERROR"))));
}

TEST(PlannerFlagsTest, DefaultsAreThoseOfThePlanner) {
  std::string name = "plimsoll-planner";
  std::vector<char*> argv = {name.data()};
  const auto flags = ReadPlannerFlagsAgain(1, argv.data());
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_THAT(PrintSettings(flags->settings),
              AllOf(HasSubstr("lease-ttl = 10  # default"),
                    HasSubstr("lease-grace = 5  # default"),
                    HasSubstr("drain-timeout = 30  # default"),
                    HasSubstr("first = false  # default"),
                    HasSubstr("# journal is not set")));
}

}  // namespace
}  // namespace plimsoll::services
