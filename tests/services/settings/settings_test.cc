#include "services/settings/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;

TEST(SettingsTest, AVariableHasTheSectionAndTheKey) {
  EXPECT_EQ(VariableOf("worker", "n-ctx"), "PLIMSOLL_WORKER_N_CTX");
  EXPECT_EQ(VariableOf("planner", "listen"), "PLIMSOLL_PLANNER_LISTEN");
}

TEST(SettingsTest, EachLineSaysWhereItsValueComesFrom) {
  const Settings settings = {
      .section = "worker",
      .all =
          {{"listen", SettingKind::kSingle, {"127.0.0.1:0"}, "default"},
           {"slots", SettingKind::kSingle, {"8"}, "a.toml:3"},
           {"prompt-share", SettingKind::kSingle, {"0.47"}, "--prompt-share"},
           {"lazy", SettingKind::kSwitch, {"true"}, "$PLIMSOLL_WORKER_LAZY"},
           {"n-ctx", SettingKind::kSingle, {}, "default"},
           {"pin", SettingKind::kList, {"a", "b"}, "--pin"},
           {"model", SettingKind::kList, {}, "a.toml:9"}},
      .unread = {"PLIMSOLL_WORKER_SLOTZ"}};
  EXPECT_EQ(PrintSettings(settings),
            "[worker]\n"
            "# --help says what holds where nothing is set\n"
            "listen = \"127.0.0.1:0\"  # default\n"
            "slots = 8  # a.toml:3\n"
            "prompt-share = 0.47  # --prompt-share\n"
            "lazy = true  # $PLIMSOLL_WORKER_LAZY\n"
            "# n-ctx is not set\n"
            "pin = [\"a\", \"b\"]  # --pin\n"
            "model = []  # a.toml:9\n"
            "# no setting reads $PLIMSOLL_WORKER_SLOTZ\n");
}

TEST(SettingsTest, EveryPrintedValueIsReadAsItWas) {
  for (const std::string value :
       {"",     "8",          "08",      "-3",      "+3",   "0.47",
        "1e9",  "1e+30",      ".5",      "5.",      "0x10", "inf",
        "nan",  "true",       "12GiB",   "a\"b\\c", "a#b",  "tab\there",
        "\x7f", "line\nline", "\xc3\xa9"}) {
    const Settings settings = {
        .section = "worker",
        .all = {{"key", SettingKind::kSingle, {value}, "--key"}}};
    auto file = ParseSettingsFile("a.toml", PrintSettings(settings));
    ASSERT_TRUE(file.ok()) << value << file.status();
    EXPECT_THAT(file->sections["worker"].at(0).values, ElementsAre(value));
  }
}

}  // namespace
}  // namespace plimsoll::services
