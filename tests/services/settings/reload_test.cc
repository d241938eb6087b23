#include "services/settings/reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace plimsoll::services {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Setting OneFrom(const std::string& where, const std::string& key,
                std::vector<std::string> values) {
  return {key, SettingKind::kSingle, std::move(values), where};
}

Setting One(const std::string& key, std::vector<std::string> values) {
  return OneFrom("a.toml:1", key, std::move(values));
}

class ApplySettingsTest : public ::testing::Test {
 protected:
  // Applies `read` and returns the log.
  std::string Apply(const Settings& read, absl::Status result) {
    ::testing::internal::CaptureStderr();
    ApplySettings(read,
                  {{"pin",
                    [&] {
                      ++n_applied_;
                      return result;
                    }}},
                  in_effect_);
    return ::testing::internal::GetCapturedStderr();
  }

  Settings in_effect_ = {.section = "worker",
                         .all = {One("pin", {"a"}), One("slots", {"4"})}};
  int n_applied_ = 0;
};

TEST_F(ApplySettingsTest, AChangedValueIsAppliedOnce) {
  const Settings read = {.section = "worker",
                         .all = {One("pin", {"a", "b"}), One("slots", {"4"})}};
  EXPECT_THAT(Apply(read, absl::OkStatus()),
              AllOf(HasSubstr("INFO the settings were read again changed=pin"),
                    Not(HasSubstr("restart"))));
  EXPECT_EQ(n_applied_, 1);
  EXPECT_THAT(in_effect_.all[0].values, ElementsAre("a", "b"));
  EXPECT_THAT(Apply(read, absl::OkStatus()), HasSubstr("changed=\"\""));
  EXPECT_EQ(n_applied_, 1);
}

TEST_F(ApplySettingsTest, AnotherPlaceOfTheSameValueIsNoChange) {
  const Settings read = {.section = "worker",
                         .all = {OneFrom("--pin", "pin", {"a"}),
                                 OneFrom("default", "slots", {"4"})}};
  EXPECT_THAT(Apply(read, absl::OkStatus()), HasSubstr("changed=\"\""));
  EXPECT_EQ(n_applied_, 0);
}

TEST_F(ApplySettingsTest, WhatNeedsARestartIsNamedEachTime) {
  const Settings read = {.section = "worker",
                         .all = {One("pin", {"a"}), One("slots", {"8"})}};
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Apply(read, absl::OkStatus()),
                HasSubstr("WARNING new values of settings count after a "
                          "restart only keys=slots"));
    EXPECT_THAT(in_effect_.all[1].values, ElementsAre("4"));
  }
}

TEST_F(ApplySettingsTest, AFailureLeavesTheOldValue) {
  const Settings read = {.section = "worker",
                         .all = {One("pin", {"b"}), One("slots", {"4"})}};
  EXPECT_THAT(Apply(read, absl::NotFoundError("no b")),
              HasSubstr("ERROR a setting could not be changed key=pin "
                        "error=\"no b\""));
  EXPECT_THAT(in_effect_.all[0].values, ElementsAre("a"));
  EXPECT_EQ(n_applied_, 1);
  Apply(read, absl::OkStatus());
  EXPECT_EQ(n_applied_, 2) << "it is tried again";
}

}  // namespace
}  // namespace plimsoll::services
