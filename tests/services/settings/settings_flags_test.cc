#include "services/settings/settings_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/server/flags.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A program with flags of each kind.
class SettingsFlagsTest : public ::testing::Test {
 protected:
  ~SettingsFlagsTest() override {
    for (const std::string& name : variables_) unsetenv(name.c_str());
  }

  void Set(const std::string& variable, const std::string& value) {
    variables_.push_back(variable);
    setenv(variable.c_str(), value.c_str(), 1);
  }

  // Writes lines of [worker] and returns the path.
  std::string Write(const std::string& lines) {
    std::ofstream(path_) << "[worker]\n" << lines;
    return path_;
  }

  // Returns the error, if any.
  std::string Parse(std::vector<std::string> args) {
    args.insert(args.begin(), "program");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    CLI::App app;
    AddSettingsFlags(app, settings_);
    app.add_option("--slots", slots_)
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    app.add_option("--pin", pins_);
    app.add_flag("--lazy", lazy_)->excludes(app.add_flag("--eager", eager_));
    app.add_option("--keep-alive", keep_alive_)
        ->needs(app.get_option("--lazy"));
    app.add_option("--type", types_)->expected(1, 2)->delimiter(',');
    app.add_option("files", files_);
    app.set_version_flag("--version", "1");
    return std::string(
        ReadFlagsAgain(app, static_cast<int>(argv.size()), argv.data())
            .message());
  }

  std::string WhereOf(const std::string& key) const {
    for (const Setting& setting : settings_.all) {
      if (setting.key == key) return setting.where;
    }
    return "nowhere";
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("a.toml");
  std::vector<std::string> variables_;
  Settings settings_ = {.section = "worker"};
  int slots_ = 4;
  std::vector<std::string> pins_;
  bool lazy_ = false;
  bool eager_ = false;
  std::optional<double> keep_alive_;
  std::vector<std::string> types_;
  std::vector<std::string> files_;
};

TEST_F(SettingsFlagsTest, WithoutAFileDefaultsHold) {
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(slots_, 4);
  EXPECT_EQ(WhereOf("slots"), "default");
  EXPECT_THAT(settings_.path, IsEmpty());
}

TEST_F(SettingsFlagsTest, AFlagCountsBeforeAVariableAndThatBeforeTheFile) {
  const std::string config = "--config=" + Write("slots = 1\n");
  EXPECT_EQ(Parse({config}), "");
  EXPECT_EQ(slots_, 1);
  EXPECT_EQ(WhereOf("slots"), path_ + ":2");
  Set("PLIMSOLL_WORKER_SLOTS", "2");
  EXPECT_EQ(Parse({config}), "");
  EXPECT_EQ(slots_, 2);
  EXPECT_EQ(WhereOf("slots"), "$PLIMSOLL_WORKER_SLOTS");
  EXPECT_EQ(Parse({config, "--slots=3"}), "");
  EXPECT_EQ(slots_, 3);
  EXPECT_EQ(WhereOf("slots"), "--slots");
}

TEST_F(SettingsFlagsTest, AVariableMayNameTheFile) {
  Set("PLIMSOLL_CONFIG", Write("slots = 5\n"));
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(slots_, 5);
  EXPECT_EQ(settings_.path, path_);
  const std::string other = folder_.File("b.toml");
  std::ofstream(other) << "[worker]\nslots = 6\n";
  EXPECT_EQ(Parse({"--config", other}), "");
  EXPECT_EQ(slots_, 6);
}

TEST_F(SettingsFlagsTest, AnEmptyVariableCountsAsMissing) {
  Set("PLIMSOLL_WORKER_SLOTS", "");
  Set("PLIMSOLL_CONFIG", "");
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(WhereOf("slots"), "default");
}

TEST_F(SettingsFlagsTest, ListsComeFromAllThree) {
  const std::string config =
      "--config=" + Write("pin = ['a', 'b,c']\ntype = 'x,y'\n");
  EXPECT_EQ(Parse({config}), "");
  EXPECT_THAT(pins_, ElementsAre("a", "b,c"));
  EXPECT_THAT(types_, ElementsAre("x", "y"));
  Set("PLIMSOLL_WORKER_PIN", "d,e");
  EXPECT_EQ(Parse({config}), "");
  EXPECT_THAT(pins_, ElementsAre("d", "e"));
  EXPECT_EQ(Parse({config, "--pin", "f"}), "") << "no list is added to another";
  EXPECT_THAT(pins_, ElementsAre("f"));
}

TEST_F(SettingsFlagsTest, OperandsAreAList) {
  const std::string config = "--config=" + Write("files = ['a', 'b']\n");
  EXPECT_EQ(Parse({config}), "");
  EXPECT_THAT(files_, ElementsAre("a", "b"));
  EXPECT_EQ(Parse({config, "c"}), "");
  EXPECT_THAT(files_, ElementsAre("c"));
  EXPECT_EQ(WhereOf("files"), "operands");
}

TEST_F(SettingsFlagsTest, ASubcommandThatIsNotCalledReadsNothing) {
  Set("PLIMSOLL_CONFIG", folder_.File("no.toml"));
  CLI::App app;
  AddSettingsFlags(*app.add_subcommand("one"), settings_);
  app.add_subcommand("two");
  for (const bool is_called : {false, true}) {
    std::string program = "program";
    std::string command = is_called ? "one" : "two";
    std::vector<char*> argv = {program.data(), command.data()};
    EXPECT_EQ(ReadFlagsAgain(app, 2, argv.data()).ok(), !is_called);
  }
}

TEST_F(SettingsFlagsTest, AListMayBeOneValueOrNone) {
  EXPECT_EQ(Parse({"--config=" + Write("pin = 'a'\ntype = []\n")}), "");
  EXPECT_THAT(pins_, ElementsAre("a"));
  EXPECT_THAT(types_, IsEmpty());
}

TEST_F(SettingsFlagsTest, ASwitchThatIsOffIsAsIfItWereNotGiven) {
  const std::string config =
      "--config=" + Write("lazy = true\neager = false\n");
  EXPECT_EQ(Parse({config}), "");
  EXPECT_TRUE(lazy_);
  EXPECT_FALSE(eager_);
  lazy_ = false;
  Set("PLIMSOLL_WORKER_LAZY", "false");
  EXPECT_EQ(Parse({config, "--eager"}), "");
  EXPECT_FALSE(lazy_);
}

TEST_F(SettingsFlagsTest, FlagsMayNeedWhatTheFileSays) {
  EXPECT_EQ(Parse({"--config=" + Write("lazy = true\n"), "--keep-alive=3"}),
            "");
  EXPECT_EQ(keep_alive_, 3);
  EXPECT_THAT(Parse({"--config=" + Write("keep-alive = 3\n")}),
              HasSubstr("--keep-alive requires --lazy"));
  EXPECT_THAT(Parse({"--config=" + Write("lazy = true\n"), "--eager"}),
              HasSubstr("excludes"));
}

TEST_F(SettingsFlagsTest, AnUnknownKeyHasItsLineAndTheNearest) {
  EXPECT_EQ(Parse({"--config=" + Write("lazy = true\nslotz = 3\n")}),
            path_ + ":3: [worker] has no key slotz; did you mean slots?");
  for (const std::string key : {"config", "print-config", "version", "help"}) {
    EXPECT_THAT(Parse({"--config=" + Write(key + " = 'a'\n")}),
                HasSubstr("[worker] has no key " + key));
  }
}

TEST_F(SettingsFlagsTest, AValueOutOfRangeHasItsPlaceAndTheRange) {
  EXPECT_THAT(
      Parse({"--config=" + Write("\nslots = 65\n")}),
      AllOf(StartsWith(path_ + ":3: --slots: "), HasSubstr("65 not in range")));
  EXPECT_THAT(Parse({"--config=" + Write("slots = 'many'\n")}),
              StartsWith(path_ + ":2: --slots: "));
  EXPECT_THAT(Parse({"--config=" + Write("type = ['a', 'b', 'c']\n")}),
              StartsWith(path_ + ":2: --type: "));
  Set("PLIMSOLL_WORKER_SLOTS", "0");
  EXPECT_THAT(Parse({}), StartsWith("$PLIMSOLL_WORKER_SLOTS: --slots: "));
  EXPECT_THAT(Parse({"--slots=0"}), StartsWith("--slots: "))
      << "the command line's own";
}

TEST_F(SettingsFlagsTest, AValueOfAnotherKindSaysWhatIsAllowed) {
  EXPECT_EQ(Parse({"--config=" + Write("lazy = 'true'\n")}),
            path_ + ":2: lazy takes true or false, without quotes");
  EXPECT_EQ(Parse({"--config=" + Write("slots = true\n")}),
            path_ + ":2: slots takes one text or one number");
  EXPECT_EQ(Parse({"--config=" + Write("slots = [1]\n")}),
            path_ + ":2: slots takes one text or one number");
  EXPECT_EQ(Parse({"--config=" + Write("pin = false\n")}),
            path_ + ":2: pin takes a text, a number or a list of them");
  Set("PLIMSOLL_WORKER_LAZY", "yes");
  EXPECT_EQ(Parse({}), "$PLIMSOLL_WORKER_LAZY: takes true or false");
}

TEST_F(SettingsFlagsTest, ABadFileIsAnErrorUnlessHelpIsAsked) {
  const std::string config = "--config=" + folder_.File("no.toml");
  EXPECT_EQ(Parse({config}),
            folder_.File("no.toml") + ": No such file or directory");
  EXPECT_THAT(Parse({config, "--help"}), Not(HasSubstr("No such file")));
  EXPECT_EQ(Parse({config, "--version"}), "1");
}

TEST_F(SettingsFlagsTest, OtherSectionsMayBeThere) {
  EXPECT_EQ(
      Parse({"--config=" + Write("slots = 3\n[planner]\nfirst = true\n")}), "");
  EXPECT_EQ(slots_, 3);
}

TEST_F(SettingsFlagsTest, VariablesThatNothingReadsAreListed) {
  Set("PLIMSOLL_WORKER_SLOTZ", "secret");
  Set("PLIMSOLL_WORKER_PIN", "a");
  Set("PLIMSOLL_TOKEN", "secret");
  EXPECT_EQ(Parse({}), "");
  EXPECT_THAT(settings_.unread, ElementsAre("PLIMSOLL_WORKER_SLOTZ"));
  EXPECT_THAT(PrintSettings(settings_), Not(HasSubstr("secret")));
}

TEST_F(SettingsFlagsTest, WhatIsPrintedGivesTheSameSettings) {
  EXPECT_EQ(Parse({"--slots=7", "--pin=a", "--pin=1", "--lazy",
                   "--keep-alive=0.5", "--print-config"}),
            "");
  EXPECT_TRUE(settings_.is_printed);
  const Settings before = settings_;
  std::ofstream(path_) << PrintSettings(before);
  settings_ = {.section = "worker"};
  EXPECT_EQ(Parse({"--config", path_}), "");
  ASSERT_EQ(settings_.all.size(), before.all.size());
  for (size_t i = 0; i < before.all.size(); ++i) {
    EXPECT_EQ(settings_.all[i].values, before.all[i].values)
        << before.all[i].key;
  }
}

}  // namespace
}  // namespace plimsoll::services
