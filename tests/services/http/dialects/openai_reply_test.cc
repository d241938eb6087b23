#include "services/http/dialects/openai_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/http/json.h"
#include "tests/services/http/dialects/named_events_fixture.h"

namespace plimsoll::services {
namespace {

class OpenAiReplyTest : public NamedEventsTest {
 protected:
  OpenAiReplyTest() {
    TextJob job;
    job.prompts.emplace_back();
    job.n_choices = 2;
    ReplyHead head{.id = "id", .created_s = 1, .model = {}};
    head.model = "m";
    format_ = NewChatFormat(job, std::move(head));
  }

  // The choices of the events for these parts of a reply.
  std::vector<Json> Choices(int index, const std::vector<Delta>& deltas) {
    std::string bytes;
    for (const Delta& delta : deltas) format_->AppendDelta(index, delta, bytes);
    std::vector<Json> choices;
    for (absl::string_view event :
         absl::StrSplit(bytes, "\n\n", absl::SkipEmpty())) {
      EXPECT_TRUE(absl::ConsumePrefix(&event, "data: ")) << event;
      const Json message = Json::parse(std::string(event));
      EXPECT_EQ(message["id"], "chatcmpl-id");
      EXPECT_EQ(message["choices"].size(), 1u);
      choices.push_back(message["choices"][0]);
      EXPECT_EQ(choices.back()["index"], index);
    }
    return choices;
  }
  // What a choice says of its only call.
  static Json CallOf(const Json& choice) {
    const Json& calls = choice["delta"]["tool_calls"];
    EXPECT_EQ(calls.size(), 1u) << choice;
    return calls.empty() ? Json() : calls[0];
  }
};

TEST_F(OpenAiReplyTest, SaysWhatAConstraintLeavesOpenOnce) {
  TextJob job;
  job.prompts.emplace_back();
  for (const auto make : {NewChatFormat, NewCompletionFormat}) {
    const auto format = make(job, {.id = "id",
                                   .created_s = 1,
                                   .model = {},
                                   .constraint_notes = {"a", "b"}});
    const Json expected = Json::array({"a", "b"});
    EXPECT_EQ(Json::parse(format->Whole({Text("x")}))["constraint_notes"],
              expected);
    std::string bytes;
    for (const char* text : {"x", "y"}) {
      format->AppendDelta(0, Text(text), bytes);
    }
    const std::vector<std::string> events =
        absl::StrSplit(bytes, "\n\n", absl::SkipEmpty());
    ASSERT_GE(events.size(), 2u);
    for (size_t i = 0; i < events.size(); ++i) {
      const Json message = Json::parse(events[i].substr(6));
      EXPECT_EQ(message.contains("constraint_notes"), i == 0) << events[i];
    }
  }
  EXPECT_FALSE(
      Json::parse(format_->Whole({Text("x")})).contains("constraint_notes"));
}

TEST_F(OpenAiReplyTest, ReasoningOfAllRepliesIsCounted) {
  Delta one = End(v1::FINISH_REASON_END_TOKEN);
  one.mutable_finish()->mutable_usage()->set_reasoning_tokens(2);
  const Json usage = Json::parse(format_->Whole({one, one}))["usage"];
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 4);
}

TEST_F(OpenAiReplyTest, TokensAreShownByTheirBytes) {
  Delta delta = Text("a\xc3\xa9");
  for (const char* bytes : {"a", "\xc3", "\xa9", "<eos>"}) {
    v1::GeneratedToken& token = *delta.add_tokens();
    token.set_text_bytes(bytes);
    token.set_logprob(-1);
    v1::TokenCandidate& candidate = *token.add_candidates();
    candidate.set_text_bytes(bytes);
    candidate.set_logprob(-1);
  }
  delta.mutable_tokens(3)->set_is_end(true);
  TextJob job;
  job.prompts.emplace_back().mutable_response()->set_top_logprobs(1);
  const auto chat = NewChatFormat(job, {.id = "id", .model = "m"});
  const Json whole = Json::parse(chat->Whole({delta}));
  const Json& content = whole["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3u) << "an end token is no text";
  EXPECT_EQ(content[0], Json::parse(R"({"token":"a","logprob":-1.0,)"
                                    R"("bytes":[97],"top_logprobs":[)"
                                    R"({"token":"a","logprob":-1.0,)"
                                    R"("bytes":[97]}]})"));
  EXPECT_EQ(content[1]["token"], "\xef\xbf\xbd");
  EXPECT_EQ(content[1]["bytes"], Json::array({0xc3}));
  const auto completion = NewCompletionFormat(job, {.id = "id", .model = "m"});
  const Json other = Json::parse(completion->Whole({delta}));
  const Json& logprobs = other["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"][0], "a");
  EXPECT_EQ(logprobs["top_logprobs"][0], Json::parse(R"({"a":-1.0})"));
  EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1, 4}));
}

TEST_F(OpenAiReplyTest, ArgumentsComeInPieces) {
  Delta last = Call("f", R"({"x":1})");
  last.set_text("b");
  const std::vector<Json> choices =
      Choices(1, {Text("a"), Piece(0, "f", "{"), Piece(0, "", R"("x":1})"),
                  last, Call("g", "{}"), Piece(2, "h", "{}"), Call("h", "{}"),
                  End(v1::FINISH_REASON_TOOL_CALL)});
  ASSERT_EQ(choices.size(), 8u);
  EXPECT_EQ(choices[0]["delta"]["role"], "assistant");
  EXPECT_EQ(choices[1]["delta"]["content"], "a");
  const Json first = CallOf(choices[2]);
  EXPECT_EQ(first["index"], 0);
  EXPECT_EQ(first["id"], "call_1_0");
  EXPECT_EQ(first["type"], "function");
  EXPECT_EQ(first["function"], Json::parse(R"({"name":"f","arguments":"{"})"));
  EXPECT_EQ(CallOf(choices[3]),
            Json::parse(R"({"function":{"arguments":"\"x\":1}"},"index":0})"));
  EXPECT_EQ(choices[4]["delta"]["content"], "b");
  const Json whole = CallOf(choices[5]);
  EXPECT_EQ(whole["index"], 1);
  EXPECT_EQ(whole["id"], "call_1_1");
  EXPECT_EQ(whole["function"]["name"], "g");
  EXPECT_EQ(CallOf(choices[6])["index"], 2);
  EXPECT_EQ(choices[7]["finish_reason"], "tool_calls");
}

TEST_F(OpenAiReplyTest, RepliesCountTheirOwnCalls) {
  Choices(0, {Piece(0, "f", "{}"), Call("f", "{}")});
  const Json call = CallOf(Choices(1, {Piece(0, "g", "{}")})[1]);
  EXPECT_EQ(call["index"], 0);
  EXPECT_EQ(call["id"], "call_1_0");
  EXPECT_EQ(CallOf(Choices(0, {Piece(1, "g", "{}")})[0])["index"], 1);
}

TEST_F(OpenAiReplyTest, ACallThatFailsAfterItsPiecesSaysWhy) {
  const std::vector<Json> choices = Choices(
      0, {Piece(0, "f", "{"), BrokenCall(), End(v1::FINISH_REASON_MAX_TOKENS)});
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[2]["delta"], Json::object()) << "its text was sent";
  EXPECT_EQ(choices[2]["tool_call_errors"],
            Json::parse(R"([{"index":0,"error":"it is cut off"}])"));
  EXPECT_EQ(choices[3]["finish_reason"], "length");
}

TEST_F(OpenAiReplyTest, ACallThatIsNoneIsText) {
  const std::vector<Json> choices = Choices(0, {BrokenCall()});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[1]["delta"]["content"], "call:f{");
}

TEST_F(OpenAiReplyTest, AWholeReplyHasWholeCalls) {
  Delta reply = End(v1::FINISH_REASON_TOOL_CALL);
  reply.MergeFrom(Piece(0, "f", "{}"));
  reply.MergeFrom(Call("f", "{}"));
  const Json choice = Json::parse(format_->Whole({reply}))["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"],
            Json::parse(R"([{"id":"call_0_0","type":"function","function":)"
                        R"({"name":"f","arguments":"{}"}}])"));
  EXPECT_TRUE(choice["message"]["content"].is_null());
}

}  // namespace
}  // namespace plimsoll::services
