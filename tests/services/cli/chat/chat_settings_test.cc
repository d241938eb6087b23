#include "services/cli/chat/chat_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

TEST(ChatSettingsTest, EverySettingIsReadAndChangedByItsName) {
  SamplingFlags flags;
  for (const ChatSetting& setting : ChatSettings(flags)) {
    const std::string value = setting.value == "1" ? "0.5" : "1";
    ASSERT_TRUE(ChangeChatSetting(setting.name, value, flags).ok())
        << setting.name;
    const auto now = ChatSettingOf(setting.name, flags);
    ASSERT_TRUE(now.ok());
    EXPECT_EQ(now->value, value) << setting.name;
    EXPECT_EQ(now->name, setting.name);
  }
  EXPECT_EQ(flags.sampling.temperature, 1.0f);
  EXPECT_EQ(flags.sampling.seed, 1u);
  EXPECT_EQ(flags.max_tokens, 1);
  EXPECT_EQ(flags.logit_bias.repetition_penalty, 0.5f);
}

TEST(ChatSettingsTest, ValuesAreAsTheyWereWritten) {
  SamplingFlags flags;
  EXPECT_EQ(ChatSettingOf("temperature", flags)->value, "0.8");
  EXPECT_EQ(ChatSettingOf("max_tokens", flags)->value, "0");
  ASSERT_TRUE(ChangeChatSetting("seed", "18446744073709551615", flags).ok());
  EXPECT_EQ(ChatSettingOf("seed", flags)->value, "18446744073709551615");
}

TEST(ChatSettingsTest, DashesAreUnderscores) {
  SamplingFlags flags;
  ASSERT_TRUE(ChangeChatSetting("top-k", "3", flags).ok());
  EXPECT_EQ(flags.sampling.top_k, 3);
}

TEST(ChatSettingsTest, NoLimitOfTokensIsNought) {
  SamplingFlags flags;
  flags.max_tokens = 5;
  ASSERT_TRUE(ChangeChatSetting("max_tokens", "0", flags).ok());
  EXPECT_FALSE(flags.max_tokens.has_value());
}

TEST(ChatSettingsTest, AnUnknownNameNamesTheNearest) {
  SamplingFlags flags;
  const absl::Status status = ChangeChatSetting("temprature", "1", flags);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("nearest is temperature"));
}

struct BadValue {
  const char* name;
  const char* value;
  const char* says;
};

TEST(ChatSettingsTest, AValueThatIsNotAllowedChangesNothing) {
  const BadValue cases[] = {
      {"temperature", "warm", "temperature: 'warm'"},
      {"temperature", "101", "from 0 to 100"},
      {"temperature", "nan", "from 0 to 100"},
      {"top_p", "0", "top_p"},
      {"top_k", "-1", "from 0 to"},
      {"seed", "-1", "from 0 to 2^64 - 1"},
      {"seed", "1.5", "whole number"},
      {"repetition_penalty", "0", "from 0.01 to 100"},
      {"penalty_last_tokens", "8193", "from 0 to 8192"},
      {"max_tokens", "4294967296", "from 0 to 4294967295"},
  };
  for (const BadValue& bad : cases) {
    SamplingFlags flags;
    const auto before = ChatSettingOf(bad.name, flags);
    const absl::Status status = ChangeChatSetting(bad.name, bad.value, flags);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.says));
    EXPECT_EQ(ChatSettingOf(bad.name, flags)->value, before->value);
  }
}

}  // namespace
}  // namespace plimsoll::cli
