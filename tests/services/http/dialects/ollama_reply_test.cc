#include "services/http/dialects/ollama_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/civil_time.h"
#include "services/http/json.h"

namespace plimsoll::services {
namespace {

using Delta = ReplyFormat::Delta;

class OllamaReplyTest : public ::testing::Test {
 protected:
  using Maker = std::unique_ptr<ReplyFormat> (*)(const TextJob&, ReplyHead);

  static std::unique_ptr<ReplyFormat> Make(Maker maker) {
    TextJob job;
    job.prompts.emplace_back();
    ReplyHead head{.id = "id", .created_s = 1, .model = {}};
    head.model = "m";
    head.load_time = absl::Nanoseconds(11);
    return maker(job, std::move(head));
  }
  static Delta Text(const std::string& text) {
    Delta delta;
    delta.set_text(text);
    return delta;
  }
  static Delta End(v1::FinishReason reason) {
    Delta delta;
    v1::FinishInfo& finish = *delta.mutable_finish();
    finish.set_finish_reason(reason);
    finish.mutable_usage()->set_prompt_tokens(9);
    finish.mutable_usage()->set_generated_tokens(3);
    finish.mutable_timing()->mutable_total()->set_seconds(2);
    finish.mutable_timing()->mutable_prefill()->set_nanos(5);
    finish.mutable_timing()->mutable_decode()->set_nanos(7);
    return delta;
  }
  static void AddCall(Delta& delta) {
    v1::ToolCall& call = *delta.add_tool_calls();
    call.set_name("f");
    call.set_arguments(R"({"x":1})");
  }
  static std::vector<Json> Stream(ReplyFormat& format,
                                  const std::vector<Delta>& deltas) {
    std::string bytes;
    for (const Delta& delta : deltas) format.AppendDelta(0, delta, bytes);
    format.AppendEnd(bytes);
    std::vector<Json> lines;
    for (absl::string_view line :
         absl::StrSplit(bytes, '\n', absl::SkipEmpty())) {
      lines.push_back(Json::parse(std::string(line)));
    }
    return lines;
  }
};

TEST_F(OllamaReplyTest, AStreamIsALineForEachPart) {
  const auto format = Make(NewOllamaChatFormat);
  const std::vector<Json> lines = Stream(
      *format,
      {Text("a"), Text(""), Text("b"), End(v1::FINISH_REASON_END_TOKEN)});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["model"], "m");
  EXPECT_EQ(lines[0]["message"],
            Json::parse(R"({"role":"assistant","content":"a"})"));
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines[1]["message"]["content"], "b");
  const Json& end = lines[2];
  EXPECT_EQ(end["message"]["content"], "");
  EXPECT_EQ(end["done"], true);
  EXPECT_EQ(end["done_reason"], "stop");
  EXPECT_EQ(end["total_duration"], 2'000'000'000);
  EXPECT_EQ(end["load_duration"], 11);
  EXPECT_EQ(end["prompt_eval_count"], 9);
  EXPECT_EQ(end["prompt_eval_duration"], 5);
  EXPECT_EQ(end["eval_count"], 3);
  EXPECT_EQ(end["eval_duration"], 7);
}

TEST_F(OllamaReplyTest, ALastPartMayHaveText) {
  Delta last = End(v1::FINISH_REASON_MAX_TOKENS);
  last.set_text("b");
  const auto format = Make(NewOllamaGenerateFormat);
  const std::vector<Json> lines = Stream(*format, {last});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["response"], "b");
  EXPECT_EQ(lines[1]["response"], "");
  EXPECT_EQ(lines[1]["done_reason"], "length");
}

TEST_F(OllamaReplyTest, ArgumentsOfCallsAreObjects) {
  Delta delta = Text("a");
  AddCall(delta);
  AddCall(delta);
  v1::ToolCall& broken = *delta.add_tool_calls();
  broken.set_error("it is cut off");
  broken.set_text("call:f{");
  const auto format = Make(NewOllamaChatFormat);
  const std::vector<Json> lines =
      Stream(*format, {delta, End(v1::FINISH_REASON_TOOL_CALL)});
  const Json& message = lines[0]["message"];
  EXPECT_EQ(message["content"], "acall:f{") << "nothing is lost";
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(message["tool_calls"][1]["function"]["index"], 1);
  EXPECT_EQ(lines[1]["done_reason"], "stop");
}

TEST_F(OllamaReplyTest, AWholeReplyIsOneObject) {
  Delta reply = End(v1::FINISH_REASON_LENGTH);
  reply.set_text("ab");
  const Json chat = Json::parse(Make(NewOllamaChatFormat)->Whole({reply}));
  EXPECT_EQ(chat["message"]["content"], "ab");
  EXPECT_EQ(chat["done"], true);
  EXPECT_EQ(chat["done_reason"], "length");
  EXPECT_EQ(chat["eval_count"], 3);
  EXPECT_EQ(
      Json::parse(Make(NewOllamaGenerateFormat)->Whole({reply}))["response"],
      "ab");
}

TEST_F(OllamaReplyTest, SaysThatAModelIsLoaded) {
  const auto format = Make(NewOllamaGenerateFormat);
  const std::vector<Json> lines = Stream(*format, {});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["done_reason"], "load");
  EXPECT_EQ(lines[0]["response"], "");
  EXPECT_EQ(Json::parse(format->Whole({}))["done"], true);
}

TEST_F(OllamaReplyTest, AnErrorIsAText) {
  std::string bytes;
  Make(NewOllamaChatFormat)->AppendError(absl::InternalError("bug"), bytes);
  EXPECT_EQ(bytes, "{\"error\":\"bug\"}\n");
  const HttpResponse response =
      OllamaError(absl::InvalidArgumentError("sampling.top_p: is bad"));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body, R"({"error":"top_p: is bad"})");
}

TEST_F(OllamaReplyTest, TimesAreInUtc) {
  const absl::Time time =
      absl::FromCivil(absl::CivilSecond(2026, 1, 2, 3, 4, 5),
                      absl::UTCTimeZone()) +
      absl::Microseconds(6);
  EXPECT_EQ(OllamaTime(time), "2026-01-02T03:04:05.000006Z");
}

}  // namespace
}  // namespace plimsoll::services
