#include "services/http/dialects/anthropic_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/http/json.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using Part = ReplyFormat::Part;

class AnthropicReplyTest : public ::testing::Test {
 protected:
  AnthropicReplyTest() {
    ReplyHead head{.id = "id", .created_s = 1, .model = {}};
    head.model.name = "m";
    head.n_prompt_tokens = 9;
    format_ = NewMessagesFormat({}, std::move(head));
  }

  static Part Text(const std::string& text) {
    Part part;
    part.set_text(text);
    return part;
  }
  static Part Call(const std::string& name, const std::string& arguments) {
    Part part;
    v1::ToolCall& call = *part.add_tool_calls();
    call.set_name(name);
    call.set_arguments(arguments);
    return part;
  }
  static Part End(v1::FinishReason reason) {
    Part part;
    part.mutable_finish()->set_finish_reason(reason);
    v1::TokenUsage& usage = *part.mutable_finish()->mutable_usage();
    usage.set_prompt_tokens(9);
    usage.set_cached_tokens(4);
    usage.set_generated_tokens(3);
    return part;
  }

  // The events of a stream of these parts; checks that each has its own name.
  std::vector<Json> Stream(const std::vector<Part>& parts) {
    std::string bytes;
    for (const Part& part : parts) format_->AppendPart(0, part, bytes);
    format_->AppendEnd(bytes);
    return Events(bytes);
  }
  static std::vector<Json> Events(const std::string& bytes) {
    std::vector<Json> events;
    for (absl::string_view event :
         absl::StrSplit(bytes, "\n\n", absl::SkipEmpty())) {
      const std::vector<absl::string_view> lines = absl::StrSplit(event, '\n');
      EXPECT_EQ(lines.size(), 2u) << event;
      absl::string_view data = lines.back();
      EXPECT_TRUE(absl::ConsumePrefix(&data, "data: "));
      events.push_back(Json::parse(std::string(data)));
      EXPECT_EQ(
          lines.front(),
          absl::StrCat("event: ", events.back()["type"].get<std::string>()));
    }
    return events;
  }
  static std::vector<std::string> Types(const std::vector<Json>& events) {
    std::vector<std::string> types;
    for (const Json& event : events) types.push_back(event["type"]);
    return types;
  }

  std::unique_ptr<ReplyFormat> format_;
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

TEST_F(AnthropicReplyTest, AStreamWithoutTextHasNoBlock) {
  EXPECT_THAT(Types(Stream({End(v1::FINISH_REASON_END_TOKEN)})),
              ElementsAre("message_start", "message_delta", "message_stop"));
}

TEST_F(AnthropicReplyTest, AWholeReplyHasItsBlocks) {
  Part reply = End(v1::FINISH_REASON_TOOL_CALL);
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
  Part stopped = End(v1::FINISH_REASON_STOP_STRING);
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
