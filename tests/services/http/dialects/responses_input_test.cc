#include "services/http/dialects/responses_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::services {
namespace {

using ::testing::StartsWith;

v1::ChatPrompt Items(const std::string& items) {
  v1::ChatPrompt chat;
  ItemReader reader(chat);
  const absl::Status status = reader.Read(Json::parse(items), "input");
  EXPECT_TRUE(status.ok()) << status;
  return chat;
}

std::string Refusal(const std::string& items) {
  v1::ChatPrompt chat;
  const absl::Status status =
      ItemReader(chat).Read(Json::parse(items), "input");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << items;
  return std::string(status.message());
}

TEST(ResponsesInputTest, MessagesHaveRolesAndParts) {
  const v1::ChatPrompt chat = Items(
      R"([{"role":"developer","content":"s"},)"
      R"({"type":"message","role":"user","id":"m","status":"completed",)"
      R"("content":[{"type":"input_text","text":"a"},)"
      R"({"type":"input_text","text":"b"}]},)"
      R"({"role":"assistant","phase":"final_answer","content":[)"
      R"({"type":"output_text","text":"c","annotations":[],"logprobs":[]}]},)"
      R"({"role":"assistant","content":"d"}])");
  ASSERT_EQ(chat.messages_size(), 4);
  EXPECT_EQ(chat.messages(0).role(), v1::CHAT_ROLE_SYSTEM);
  EXPECT_EQ(chat.messages(1).role(), v1::CHAT_ROLE_USER);
  EXPECT_EQ(chat.messages(1).content(), "ab");
  EXPECT_EQ(chat.messages(2).role(), v1::CHAT_ROLE_ASSISTANT);
  EXPECT_EQ(chat.messages(2).content(), "c");
  EXPECT_EQ(chat.messages(3).content(), "d");
}

TEST(ResponsesInputTest, IncompleteCallsAreLeftOut) {
  const v1::ChatPrompt chat = Items(
      R"([{"role":"user","content":"q"},)"
      R"({"type":"function_call","call_id":"1","name":"f","arguments":"{",)"
      R"("status":"incomplete"},)"
      R"({"type":"function_call_output","call_id":"1","output":"no JSON"},)"
      R"({"role":"user","content":"again"}])");
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).content(), "q");
  EXPECT_EQ(chat.messages(1).content(), "again");
}

TEST(ResponsesInputTest, ItemsOfOneReplyAreOneMessage) {
  const v1::ChatPrompt chat = Items(
      R"([{"role":"user","content":"q"},)"
      R"({"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e",)"
      R"("content":[{"type":"reasoning_text","text":"hm"}]},)"
      R"({"role":"assistant","content":"a"},)"
      R"({"type":"function_call","call_id":"1","name":"f",)"
      R"("arguments":"{\"x\":1}"},)"
      R"({"type":"function_call","call_id":"2","name":"g","arguments":"{}"},)"
      R"({"role":"assistant","content":"b"},)"
      R"({"type":"function_call_output","call_id":"1","output":"{\"y\":2}"},)"
      R"({"type":"function_call_output","call_id":"2","output":[)"
      R"({"type":"input_text","text":"plain"}]},)"
      R"({"role":"assistant","content":"c"}])");
  ASSERT_EQ(chat.messages_size(), 5);
  EXPECT_EQ(chat.messages(1).reasoning(), "hm");
  EXPECT_EQ(chat.messages(1).content(), "ab");
  ASSERT_EQ(chat.messages(1).tool_calls_size(), 2);
  EXPECT_EQ(chat.messages(1).tool_calls(0).arguments(), R"({"x":1})");
  EXPECT_EQ(chat.messages(2).role(), v1::CHAT_ROLE_TOOL);
  EXPECT_EQ(chat.messages(2).tool_name(), "f");
  EXPECT_EQ(chat.messages(2).content(), R"({"y":2})");
  EXPECT_EQ(chat.messages(3).tool_name(), "g");
  EXPECT_EQ(chat.messages(3).content(), R"("plain")");
  EXPECT_EQ(chat.messages(4).content(), "c");
}

TEST(ResponsesInputTest, ReasoningThatCannotBeReadIsLeftOut) {
  const v1::ChatPrompt chat =
      Items(R"([{"type":"reasoning","id":"rs","encrypted_content":"e",)"
            R"("summary":[{"type":"summary_text","text":"s"}]}])");
  EXPECT_EQ(chat.messages_size(), 0);
}

TEST(ResponsesInputTest, RefusalsNameTheField) {
  EXPECT_THAT(Refusal("5"), StartsWith("input: "));
  EXPECT_THAT(Refusal("[5]"), StartsWith("input[0]: "));
  EXPECT_THAT(Refusal(R"([{"role":"tool","content":"a"}])"),
              StartsWith("input[0].role: "));
  EXPECT_THAT(Refusal(R"([{"role":"user","content":"a","x":1}])"),
              StartsWith("input[0].x: "));
  EXPECT_THAT(Refusal(R"([{"role":"user","content":5}])"),
              StartsWith("input[0].content: "));
  EXPECT_THAT(
      Refusal(R"([{"role":"user","content":[{"type":"input_image"}]}])"),
      StartsWith("input[0].content[0].type: must be input_text"));
  EXPECT_THAT(Refusal(R"([{"role":"user","content":[{"type":"input_text"}]}])"),
              StartsWith("input[0].content[0].text: "));
  EXPECT_THAT(Refusal(R"([{"type":"item_reference","id":"a"}])"),
              StartsWith("input[0].type: "));
  EXPECT_THAT(Refusal(R"([{"type":"function_call","name":"f"}])"),
              StartsWith("input[0].call_id: "));
  EXPECT_THAT(
      Refusal(R"([{"type":"function_call_output","call_id":"a","output":""}])"),
      StartsWith("input[0].call_id: "));
  EXPECT_THAT(
      Refusal(
          R"([{"type":"reasoning","content":[{"type":"text","text":"a"}]}])"),
      StartsWith("input[0].content[0].type: must be reasoning_text"));
}

}  // namespace
}  // namespace plimsoll::services
