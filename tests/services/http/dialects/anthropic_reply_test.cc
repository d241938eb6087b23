#include "services/http/dialects/anthropic_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/http/json.h"
#include "services/wire/errors.h"
#include "tests/services/http/dialects/named_events_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class AnthropicReplyTest : public NamedEventsTest {
 protected:
  AnthropicReplyTest() {
    ReplyHead head{.id = "id", .created_s = 1, .model = {}};
    head.model = "m";
    head.n_prompt_tokens = 9;
    format_ = NewMessagesFormat({}, std::move(head));
  }

  std::vector<Json> Stream(const std::vector<Delta>& deltas) {
    return Events(NamedEventsTest::Stream(deltas));
  }
};

TEST_F(AnthropicReplyTest, AStreamOfTextIsOneBlock) {
  const std::vector<Json> events = Stream(
      {Text("a"), Text(""), Text("b"), End(v1::FINISH_REASON_END_TOKEN)});
  EXPECT_THAT(
      Types(events),
      ElementsAre("message_start", "content_block_start", "content_block_delta",
                  "content_block_delta", "content_block_stop", "message_delta",
                  "message_stop"));
  const Json& message = events[0]["message"];
  EXPECT_EQ(message["id"], "msg_id");
  EXPECT_EQ(message["model"], "m");
  EXPECT_EQ(message["content"], Json::array());
  EXPECT_TRUE(message["stop_reason"].is_null());
  EXPECT_EQ(message["usage"]["input_tokens"], 9);
  EXPECT_EQ(events[1]["content_block"], Json::parse(R"({"type":"text",)"
                                                    R"("text":""})"));
  EXPECT_EQ(events[3]["delta"]["text"], "b");
  EXPECT_EQ(events[5]["delta"]["stop_reason"], "end_turn");
  const Json& usage = events[5]["usage"];
  EXPECT_EQ(usage["input_tokens"], 5);
  EXPECT_EQ(usage["cache_read_input_tokens"], 4);
  EXPECT_EQ(usage["output_tokens"], 3);
}

TEST_F(AnthropicReplyTest, EachCallIsABlockOfAStream) {
  const std::vector<Json> events =
      Stream({Text("a"), Call("f", R"({"x":1})"), Call("g", "{}"), Text("b"),
              End(v1::FINISH_REASON_TOOL_CALL)});
  EXPECT_THAT(
      Types(events),
      ElementsAre(
          "message_start", "content_block_start", "content_block_delta",
          "content_block_stop", "content_block_start", "content_block_delta",
          "content_block_stop", "content_block_start", "content_block_delta",
          "content_block_stop", "content_block_start", "content_block_delta",
          "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[4]["index"], 1);
  EXPECT_EQ(events[4]["content_block"]["name"], "f");
  EXPECT_EQ(events[4]["content_block"]["input"], Json::object());
  EXPECT_EQ(events[5]["delta"]["type"], "input_json_delta");
  EXPECT_EQ(events[5]["delta"]["partial_json"], R"({"x":1})");
  EXPECT_NE(events[4]["content_block"]["id"], events[7]["content_block"]["id"]);
  EXPECT_EQ(events[12]["index"], 3);
  EXPECT_EQ(events[13]["delta"]["stop_reason"], "tool_use");
}

TEST_F(AnthropicReplyTest, ArgumentsComeInPieces) {
  Delta last = Call("f", R"({"x":1})");
  last.set_text("b");
  const std::vector<Json> events =
      Stream({Text("a"), Piece(0, "f", ""), Piece(0, "", R"({"x")"),
              Piece(0, "", ":1}"), last, Call("g", "{}"),
              End(v1::FINISH_REASON_TOOL_CALL)});
  EXPECT_THAT(
      Types(events),
      ElementsAre("message_start", "content_block_start", "content_block_delta",
                  "content_block_stop", "content_block_start",
                  "content_block_delta", "content_block_delta",
                  "content_block_stop", "content_block_start",
                  "content_block_delta", "content_block_stop",
                  "content_block_start", "content_block_delta",
                  "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[4]["content_block"]["name"], "f");
  EXPECT_EQ(events[5]["delta"]["partial_json"], R"({"x")");
  EXPECT_EQ(events[6]["delta"]["partial_json"], ":1}");
  EXPECT_EQ(events[6]["index"], 1);
  EXPECT_FALSE(events[7].contains("error"));
  EXPECT_EQ(events[9]["delta"]["text"], "b");
  EXPECT_EQ(events[11]["content_block"]["name"], "g");
  EXPECT_NE(events[11]["content_block"]["id"],
            events[4]["content_block"]["id"]);
}

TEST_F(AnthropicReplyTest, ACallThatFailsAfterItsPiecesSaysWhy) {
  const std::vector<Json> events = Stream(
      {Piece(0, "f", "{"), BrokenCall(), End(v1::FINISH_REASON_MAX_TOKENS)});
  EXPECT_THAT(
      Types(events),
      ElementsAre("message_start", "content_block_start", "content_block_delta",
                  "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[3]["error"], "it is cut off");
  EXPECT_EQ(events[4]["delta"]["stop_reason"], "max_tokens");
}

TEST_F(AnthropicReplyTest, AStreamWithoutTextHasNoBlock) {
  EXPECT_THAT(Types(Stream({End(v1::FINISH_REASON_END_TOKEN)})),
              ElementsAre("message_start", "message_delta", "message_stop"));
}

TEST_F(AnthropicReplyTest, AWholeReplyHasItsBlocks) {
  Delta reply = End(v1::FINISH_REASON_TOOL_CALL);
  reply.set_text("a");
  *reply.add_tool_calls() = Call("f", R"({"x":[1]})").tool_calls(0);
  v1::ToolCall& broken = *reply.add_tool_calls();
  broken.set_error("it is cut off");
  broken.set_text("call:f{");
  const Json message = Json::parse(format_->Whole({reply}));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  ASSERT_EQ(message["content"].size(), 2u);
  EXPECT_EQ(message["content"][0]["text"], "acall:f{") << "nothing is lost";
  EXPECT_EQ(message["content"][1]["type"], "tool_use");
  EXPECT_EQ(message["content"][1]["input"]["x"], Json::parse("[1]"));
  EXPECT_EQ(message["stop_reason"], "tool_use");
  EXPECT_EQ(message["usage"]["output_tokens"], 3);
}

TEST_F(AnthropicReplyTest, SaysWhyAReplyEnded) {
  const auto word = [this](v1::FinishReason reason) {
    return Json::parse(format_->Whole({End(reason)}))["stop_reason"];
  };
  EXPECT_EQ(word(v1::FINISH_REASON_END_TOKEN), "end_turn");
  EXPECT_EQ(word(v1::FINISH_REASON_MAX_TOKENS), "max_tokens");
  EXPECT_EQ(word(v1::FINISH_REASON_LENGTH), "model_context_window_exceeded");
  Delta stopped = End(v1::FINISH_REASON_STOP_STRING);
  stopped.mutable_finish()->set_stop_string(";");
  const Json message = Json::parse(format_->Whole({stopped}));
  EXPECT_EQ(message["stop_reason"], "stop_sequence");
  EXPECT_EQ(message["stop_sequence"], ";");
}

TEST_F(AnthropicReplyTest, ErrorsHaveAnthropicsWords) {
  std::string bytes;
  format_->AppendError(absl::InternalError("bug"), bytes);
  const std::vector<Json> events = Events(bytes);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["error"]["type"], "api_error");
  EXPECT_EQ(events[0]["error"]["message"], "bug");
  const HttpResponse full = AnthropicError(
      WithDetails(absl::ResourceExhaustedError("full"),
                  {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Seconds(1)}));
  EXPECT_EQ(full.status, 429);
  EXPECT_THAT(full.headers, ElementsAre(Pair("Retry-After", "1")));
  EXPECT_EQ(Json::parse(full.body)["error"]["type"], "rate_limit_error");
  const auto type = [](const absl::Status& status) {
    return Json::parse(AnthropicError(status).body)["error"]["type"];
  };
  EXPECT_EQ(type(absl::InvalidArgumentError("")), "invalid_request_error");
  EXPECT_EQ(type(absl::NotFoundError("")), "not_found_error");
  EXPECT_EQ(type(absl::ResourceExhaustedError("")), "request_too_large");
  EXPECT_EQ(type(absl::UnavailableError("")), "overloaded_error");
  EXPECT_EQ(type(absl::DeadlineExceededError("")), "timeout_error");
}

}  // namespace
}  // namespace plimsoll::services
