#include "services/cli/chat/message_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::cli {
namespace {

using ::testing::ElementsAre;

// The messages of some lines; a block has a '#' in front.
std::vector<std::string> Messages(const std::vector<std::string>& typed) {
  MessageLines lines;
  std::vector<std::string> messages;
  for (const std::string& line : typed) {
    const auto is_whole = lines.Add(line);
    EXPECT_TRUE(is_whole.ok()) << is_whole.status();
    EXPECT_NE(lines.IsOpen(), is_whole.value_or(false));
    if (!is_whole.value_or(false)) continue;
    const MessageLines::Message message = lines.Take();
    messages.push_back((message.is_block ? "#" : "") + message.text);
  }
  if (lines.IsOpen()) messages.push_back("(open)");
  return messages;
}

TEST(MessageLinesTest, ALineIsAMessageWithoutBlanksAroundIt) {
  EXPECT_THAT(Messages({"hello", "  and again \r", ""}),
              ElementsAre("hello", "and again", ""));
}

TEST(MessageLinesTest, ABackslashAtTheEndGoesOn) {
  EXPECT_THAT(Messages({"one\\", "two \\", "three", "four"}),
              ElementsAre("one\ntwo \nthree", "four"));
  EXPECT_THAT(Messages({"C:\\dir"}), ElementsAre("C:\\dir"));
  EXPECT_THAT(Messages({"one\\"}), ElementsAre("(open)"));
  EXPECT_THAT(Messages({"one\\\r", "two\r"}), ElementsAre("one\ntwo"));
}

TEST(MessageLinesTest, ABlockTakesLinesAsTheyAre) {
  EXPECT_THAT(Messages({"\"\"\"", "  def f():\\", "", "    /help", "\"\"\""}),
              ElementsAre("#  def f():\\\n\n    /help"));
  EXPECT_THAT(Messages({"\"\"\"one", "two\"\"\"", "three"}),
              ElementsAre("#one\ntwo", "three"));
  EXPECT_THAT(Messages({"\"\"\"all\"\"\""}), ElementsAre("#all"));
  EXPECT_THAT(Messages({"\"\"\"", "\"\"\""}), ElementsAre("#"));
  EXPECT_THAT(Messages({"\"\"\"\"\"\""}), ElementsAre("#"));
  EXPECT_THAT(Messages({"\"\"\"", "a \"quote\"", "\"\"\"not yet", "\"\"\" "}),
              ElementsAre("#a \"quote\"\n\"\"\"not yet"));
  EXPECT_THAT(Messages({"\"\"\"one"}), ElementsAre("(open)"));
  EXPECT_THAT(Messages({"say \"\"\" aloud"}), ElementsAre("say \"\"\" aloud"));
}

TEST(MessageLinesTest, AMessageHasALimit) {
  MessageLines lines;
  const auto half = static_cast<size_t>(MessageLines::kMaxBytes / 2);
  ASSERT_TRUE(lines.Add("\"\"\"").ok());
  ASSERT_TRUE(lines.Add(std::string(half, 'a')).ok());
  EXPECT_EQ(lines.Add(std::string(half, 'a')).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(lines.IsOpen()) << "it is dropped";
  ASSERT_TRUE(lines.Add("\"\"\"").ok());
  ASSERT_TRUE(lines.Add(std::string(half, 'a')).ok());
  ASSERT_TRUE(lines.Add(std::string(half - 2, 'a')).ok());
}

TEST(MessageLinesTest, ADroppedMessageLeavesNothing) {
  MessageLines lines;
  ASSERT_TRUE(lines.Add("\"\"\"one").ok());
  lines.Clear();
  EXPECT_FALSE(lines.IsOpen());
  ASSERT_TRUE(lines.Add("two").value_or(false));
  EXPECT_EQ(lines.Take().text, "two");
}

}  // namespace
}  // namespace plimsoll::cli
