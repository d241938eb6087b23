#include "worker/text/chat/session_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "worker/text/chat/reply_format.h"

namespace plimsoll::worker {
namespace {

using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kCall[] =
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";

ReplyReading HermesReading() {
  return {.format = FindReplyFormat("<think></think><tool_call>"),
          .tools = {{.name = "f", .description = "", .parameters = ""}}};
}

TEST(ReadReplyTest, AReplyWithoutMarksIsItsText) {
  const ChatMessage message = ReadReply(std::nullopt, "<think>a</think>b");
  EXPECT_EQ(message.role, ChatRole::kAssistant);
  EXPECT_EQ(message.content, "<think>a</think>b");
  EXPECT_THAT(message.reasoning, IsEmpty());
  EXPECT_THAT(message.tool_calls, IsEmpty());
}

TEST(ReadReplyTest, TellsReasoningAnswerAndCallsApart) {
  const ChatMessage message = ReadReply(
      HermesReading(), std::string("<think>\na\n</think>\n\nb") + kCall);
  EXPECT_EQ(message.reasoning, "a");
  EXPECT_EQ(message.content, "b");
  ASSERT_THAT(message.tool_calls, SizeIs(1));
  EXPECT_EQ(message.tool_calls[0].name, "f");
  EXPECT_EQ(message.tool_calls[0].arguments, "{\"a\":1}");
}

TEST(ReadReplyTest, ACallThatIsCutOffIsText) {
  const ChatMessage message =
      ReadReply(HermesReading(), "b<tool_call>{\"name\": \"f\"");
  EXPECT_THAT(message.tool_calls, IsEmpty());
  EXPECT_THAT(message.content, EndsWith("{\"name\": \"f\""));
}

TEST(ReadReplyTest, CallsBeyondTheMostAreText) {
  std::string text;
  for (int i = 0; i < kMaxToolCalls; ++i) text += kCall;
  const ChatMessage most = ReadReply(HermesReading(), text);
  EXPECT_THAT(most.tool_calls, SizeIs(kMaxToolCalls));
  EXPECT_THAT(most.content, IsEmpty());
  const ChatMessage more = ReadReply(HermesReading(), text + kCall);
  EXPECT_THAT(more.tool_calls, SizeIs(kMaxToolCalls));
  EXPECT_EQ(more.content, "{\"name\": \"f\", \"arguments\": {\"a\":1}}");
}

TEST(TextBytesTest, CountsAllTextsOfATurn) {
  const ChatTurn turn = {
      {ChatRole::kUser, "12"},
      {.role = ChatRole::kAssistant,
       .content = "3",
       .tool_calls = {{"45", "67"}},
       .reasoning = "8"},
      {.role = ChatRole::kTool, .content = "9", .tool_name = "ab"}};
  EXPECT_EQ(TextBytes(turn), 11);
}

}  // namespace
}  // namespace plimsoll::worker
