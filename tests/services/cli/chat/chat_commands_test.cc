#include "services/cli/chat/chat_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view line) {
  return std::string(ParseChatCommand(line).status().message());
}

TEST(ChatCommandsTest, ASlashBeginsACommandAndTwoDoNot) {
  EXPECT_TRUE(IsChatCommand("/help"));
  EXPECT_TRUE(IsChatCommand("/"));
  EXPECT_TRUE(IsChatCommand("/no such"));
  EXPECT_FALSE(IsChatCommand("//help"));
  EXPECT_FALSE(IsChatCommand("1/2"));
  EXPECT_FALSE(IsChatCommand(""));
  EXPECT_EQ(WithoutEscape("//etc/passwd"), "/etc/passwd");
  EXPECT_EQ(WithoutEscape("///"), "//");
  EXPECT_EQ(WithoutEscape("a//b"), "a//b");
}

TEST(ChatCommandsTest, EveryCommandIsParsedByItsName) {
  std::set<ChatCommand> commands;
  for (const ChatCommandHelp& help : ChatCommands()) {
    std::string line(help.name);
    if (help.argument == Argument::kNeeded) line += " a b ";
    const auto parsed = ParseChatCommand(line);
    ASSERT_TRUE(parsed.ok()) << line << ": " << parsed.status();
    EXPECT_EQ(parsed->command, help.command);
    EXPECT_EQ(parsed->argument,
              help.argument == Argument::kNeeded ? "a b" : "");
    EXPECT_TRUE(commands.insert(help.command).second) << line;
  }
}

TEST(ChatCommandsTest, AnArgumentMayHaveSeveralLines) {
  const auto parsed = ParseChatCommand("/system\nBe brief.\nBe kind.");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->argument, "Be brief.\nBe kind.");
}

TEST(ChatCommandsTest, AnUnknownCommandNamesTheNearest) {
  EXPECT_THAT(ErrorOf("/hlep"), HasSubstr("no command /hlep"));
  EXPECT_THAT(ErrorOf("/hlep"), HasSubstr("nearest is /help"));
  EXPECT_THAT(ErrorOf("/reg"), HasSubstr("/regenerate"));
  EXPECT_THAT(ErrorOf("/quit"), HasSubstr("/exit"));
  EXPECT_THAT(ErrorOf("/Help"), HasSubstr("/help")) << "case counts";
  EXPECT_THAT(ErrorOf("/"), HasSubstr("/help lists all"));
  EXPECT_THAT(ErrorOf("/usr/bin/env"), HasSubstr("//"));
  EXPECT_THAT(ErrorOf("/\x1B[2J"), HasSubstr("/?[2J"));
}

TEST(ChatCommandsTest, ArgumentsAreCounted) {
  EXPECT_THAT(ErrorOf("/save"), HasSubstr("/save FILE"));
  EXPECT_THAT(ErrorOf("/load "), HasSubstr("/load FILE"));
  EXPECT_THAT(ErrorOf("/exit now"), HasSubstr("stands alone"));
}

}  // namespace
}  // namespace plimsoll::cli
