#include "services/http/dialects/responses_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "services/http/dialects/responses_request.h"
#include "services/http/json.h"
#include "services/wire/errors.h"
#include "tests/services/http/dialects/named_events_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class ResponsesReplyTest : public NamedEventsTest {
 protected:
  ResponsesReplyTest() { Begin(R"({"input":"hi"})"); }

  // Makes the format of the reply to a request.
  void Begin(const std::string& body) {
    ByteBudget::Share held = budget_.Enter("peer");
    ReadRoom room{shelf_, held};
    ReplyHead head{.id = "id", .created_s = 1, .model = {}};
    head.model = "m";
    const TextJob job = *ReadResponse(Json::parse(body), room);
    format_ = NewResponseFormat(job, std::move(head));
  }

  static Delta Thought(const std::string& text) {
    Delta delta;
    delta.set_reasoning(text);
    return delta;
  }

  // The events of a stream of these parts.
  std::vector<Json> Stream(const std::vector<Delta>& deltas) {
    return Events(NamedEventsTest::Stream(deltas));
  }
  // Checks that each event has its name and its number.
  static std::vector<Json> Events(const std::string& bytes) {
    std::vector<Json> events = NamedEventsTest::Events(bytes);
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i]["sequence_number"], i);
    }
    return events;
  }
  Json Whole(const Delta& reply) {
    return Json::parse(format_->Whole({reply}));
  }

  ResponseStore store_;
  ResponseShelf shelf_{store_, "t"};
  ByteBudget budget_{64 << 20};
};

TEST_F(ResponsesReplyTest, SaysWhatAConstraintLeavesOpen) {
  const Delta reply = End(v1::FINISH_REASON_END_TOKEN);
  EXPECT_FALSE(Whole(reply).contains("constraint_notes"));
  ByteBudget::Share held = budget_.Enter("peer");
  ReadRoom room{shelf_, held};
  const TextJob job = *ReadResponse(Json::parse(R"({"input":"hi"})"), room);
  format_ = NewResponseFormat(
      job,
      {.id = "id", .created_s = 1, .model = {}, .constraint_notes = {"a"}});
  EXPECT_EQ(Whole(reply)["constraint_notes"], Json::array({"a"}));
}

TEST_F(ResponsesReplyTest, AStreamOfTextIsOneMessage) {
  const std::vector<Json> events = Stream(
      {Text("a"), Text(""), Text("b"), End(v1::FINISH_REASON_END_TOKEN)});
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress",
                  "response.output_item.added", "response.content_part.added",
                  "response.output_text.delta", "response.output_text.delta",
                  "response.output_text.done", "response.content_part.done",
                  "response.output_item.done", "response.completed"));
  const Json& created = events[0]["response"];
  EXPECT_THAT(created["id"].get<std::string>(), StartsWith("resp_"));
  EXPECT_EQ(created["object"], "response");
  EXPECT_EQ(created["created_at"], 1);
  EXPECT_EQ(created["model"], "m");
  EXPECT_EQ(created["status"], "in_progress");
  EXPECT_EQ(created["output"], Json::array());
  EXPECT_TRUE(created["usage"].is_null());
  EXPECT_EQ(created["tool_choice"], "auto") << "what the request says";
  const Json& item = events[2]["item"];
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["role"], "assistant");
  EXPECT_EQ(item["status"], "in_progress");
  EXPECT_EQ(item["content"], Json::array());
  EXPECT_EQ(events[3]["part"]["type"], "output_text");
  EXPECT_EQ(events[3]["part"]["text"], "");
  EXPECT_EQ(events[5]["delta"], "b");
  EXPECT_EQ(events[5]["logprobs"], Json::array());
  for (size_t i = 3; i <= 7; ++i) {
    EXPECT_EQ(events[i]["item_id"], item["id"]);
    EXPECT_EQ(events[i]["output_index"], 0);
    EXPECT_EQ(events[i]["content_index"], 0);
  }
  EXPECT_EQ(events[6]["text"], "ab");
  EXPECT_EQ(events[7]["part"]["text"], "ab");
  EXPECT_EQ(events[8]["item"]["content"][0]["text"], "ab");
  EXPECT_EQ(events[8]["item"]["status"], "completed");
  const Json& done = events[9]["response"];
  EXPECT_EQ(done["id"], created["id"]);
  EXPECT_EQ(done["status"], "completed");
  EXPECT_EQ(done["output"], Json::array({events[8]["item"]}));
}

TEST_F(ResponsesReplyTest, ReasoningIsAnItemBeforeTheMessage) {
  const std::vector<Json> events =
      Stream({Thought("hm"), Text("a"), End(v1::FINISH_REASON_END_TOKEN)});
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress",
                  "response.output_item.added", "response.content_part.added",
                  "response.reasoning_text.delta",
                  "response.reasoning_text.done", "response.content_part.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.done", "response.content_part.done",
                  "response.output_item.done", "response.completed"));
  const Json& thought = events[7]["item"];
  EXPECT_EQ(thought["type"], "reasoning");
  EXPECT_EQ(thought["summary"], Json::array());
  EXPECT_EQ(thought["content"][0]["type"], "reasoning_text");
  EXPECT_EQ(thought["content"][0]["text"], "hm");
  EXPECT_EQ(events[5]["text"], "hm");
  EXPECT_FALSE(events[5].contains("logprobs"));
  EXPECT_EQ(events[8]["output_index"], 1);
  EXPECT_NE(events[8]["item"]["id"], thought["id"]);
  EXPECT_EQ(events.back()["response"]["output"].size(), 2u);
}

TEST_F(ResponsesReplyTest, EachCallIsAnItem) {
  const std::vector<Json> events =
      Stream({Text("a"), Call("f", R"({"x":1})"), Call("g", "{}"),
              End(v1::FINISH_REASON_TOOL_CALL)});
  const std::vector<std::string> types = Types(events);
  EXPECT_THAT(
      std::vector<std::string>(types.begin() + 8, types.end()),
      ElementsAre("response.output_item.added",
                  "response.function_call_arguments.delta",
                  "response.function_call_arguments.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.function_call_arguments.delta",
                  "response.function_call_arguments.done",
                  "response.output_item.done", "response.completed"));
  const Json& begun = events[8]["item"];
  EXPECT_EQ(begun["type"], "function_call");
  EXPECT_EQ(begun["name"], "f");
  EXPECT_EQ(begun["arguments"], "");
  EXPECT_EQ(begun["status"], "in_progress");
  EXPECT_EQ(events[8]["output_index"], 1);
  EXPECT_EQ(events[9]["delta"], R"({"x":1})");
  EXPECT_EQ(events[9]["item_id"], begun["id"]);
  EXPECT_EQ(events[10]["arguments"], R"({"x":1})");
  EXPECT_EQ(events[10]["name"], "f");
  EXPECT_EQ(events[11]["item"]["arguments"], R"({"x":1})");
  EXPECT_EQ(events[11]["item"]["call_id"], begun["call_id"]);
  EXPECT_NE(events[12]["item"]["call_id"], begun["call_id"]);
  EXPECT_EQ(events[12]["output_index"], 2);
}

TEST_F(ResponsesReplyTest, ArgumentsComeInPieces) {
  Delta last = Call("f", R"({"x":1})");
  last.set_text("b");
  const std::vector<Json> events =
      Stream({Piece(0, "f", ""), Piece(0, "", R"({"x")"), Piece(0, "", ":1}"),
              last, End(v1::FINISH_REASON_TOOL_CALL)});
  const std::vector<std::string> types = Types(events);
  EXPECT_THAT(
      std::vector<std::string>(types.begin() + 2, types.begin() + 8),
      ElementsAre("response.output_item.added",
                  "response.function_call_arguments.delta",
                  "response.function_call_arguments.delta",
                  "response.function_call_arguments.done",
                  "response.output_item.done", "response.output_item.added"));
  EXPECT_EQ(events[2]["item"]["name"], "f");
  EXPECT_EQ(events[2]["item"]["arguments"], "");
  EXPECT_EQ(events[3]["delta"], R"({"x")");
  EXPECT_EQ(events[4]["delta"], ":1}");
  EXPECT_EQ(events[4]["item_id"], events[2]["item"]["id"]);
  EXPECT_EQ(events[5]["arguments"], R"({"x":1})");
  EXPECT_EQ(events[6]["item"]["arguments"], R"({"x":1})");
  EXPECT_EQ(events[6]["item"]["status"], "completed");
  EXPECT_EQ(events[7]["item"]["type"], "message");
  const Json& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0], events[6]["item"]);
}

TEST_F(ResponsesReplyTest, ACallThatFailsAfterItsPiecesIsIncomplete) {
  const std::vector<Json> events =
      Stream({Piece(0, "f", "{\"x"), BrokenCall(), Text("b"),
              End(v1::FINISH_REASON_END_TOKEN)});
  const std::vector<std::string> types = Types(events);
  EXPECT_THAT(
      std::vector<std::string>(types.begin() + 2, types.begin() + 6),
      ElementsAre("response.output_item.added",
                  "response.function_call_arguments.delta",
                  "response.output_item.done", "response.output_item.added"));
  EXPECT_EQ(events[4]["item"]["status"], "incomplete");
  EXPECT_EQ(events[4]["item"]["arguments"], "{\"x");
  const Json& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0], events[4]["item"]);
  EXPECT_EQ(output[1]["content"][0]["text"], "b");
}

TEST_F(ResponsesReplyTest, AnErrorLeavesAnOpenCallIncomplete) {
  std::string bytes;
  format_->AppendDelta(0, Piece(0, "f", "{"), bytes);
  format_->AppendError(absl::InternalError("bug"), bytes);
  const Json response = Events(bytes).back()["response"];
  EXPECT_EQ(response["output"][0]["type"], "function_call");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
}

TEST_F(ResponsesReplyTest, AWholeResponseHasTheItemsOfAStream) {
  Delta reply = End(v1::FINISH_REASON_TOOL_CALL);
  reply.set_reasoning("hm");
  reply.set_text("a");
  *reply.add_tool_calls() = Call("f", R"({"x":[1]})").tool_calls(0);
  v1::ToolCall& broken = *reply.add_tool_calls();
  broken.set_error("it is cut off");
  broken.set_text("call:f{");
  reply.mutable_finish()->mutable_usage()->set_reasoning_tokens(2);
  const Json response = Whole(reply);
  EXPECT_EQ(response["status"], "completed");
  EXPECT_TRUE(response["error"].is_null());
  EXPECT_TRUE(response["incomplete_details"].is_null());
  const Json& output = response["output"];
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["content"][0]["text"], "hm");
  EXPECT_EQ(output[1]["content"][0]["text"], "acall:f{") << "nothing is lost";
  EXPECT_EQ(output[2]["name"], "f");
  EXPECT_EQ(output[2]["arguments"], R"({"x":[1]})");
  const Json& usage = response["usage"];
  EXPECT_EQ(usage["input_tokens"], 9);
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(usage["output_tokens"], 3);
  EXPECT_EQ(usage["output_tokens_details"]["reasoning_tokens"], 2);
  EXPECT_EQ(usage["total_tokens"], 12);
}

TEST_F(ResponsesReplyTest, AReplyWithoutTextHasNoItem) {
  EXPECT_THAT(Types(Stream({End(v1::FINISH_REASON_END_TOKEN)})),
              ElementsAre("response.created", "response.in_progress",
                          "response.completed"));
}

TEST_F(ResponsesReplyTest, AReplyThatIsCutIsIncomplete) {
  for (const v1::FinishReason reason :
       {v1::FINISH_REASON_MAX_TOKENS, v1::FINISH_REASON_LENGTH}) {
    Begin(R"({"input":"hi"})");
    const std::vector<Json> events = Stream({Text("a"), End(reason)});
    EXPECT_EQ(events.back()["type"], "response.incomplete");
    const Json& response = events.back()["response"];
    EXPECT_EQ(response["status"], "incomplete");
    EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(response["output"][0]["status"], "incomplete");
  }
}

TEST_F(ResponsesReplyTest, AnErrorEndsAStream) {
  std::string bytes;
  format_->AppendDelta(0, Text("a"), bytes);
  format_->AppendError(absl::InternalError("bug"), bytes);
  const std::vector<Json> events = Events(bytes);
  EXPECT_EQ(Types(events)[7], "response.output_item.done");
  EXPECT_EQ(events.back()["type"], "response.failed");
  const Json& response = events.back()["response"];
  EXPECT_EQ(response["status"], "failed");
  EXPECT_EQ(response["error"]["code"], "server_error");
  EXPECT_EQ(response["error"]["message"], "bug");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  EXPECT_EQ(StoredResponse(shelf_, response["id"].get<std::string>()).status,
            404);
}

TEST_F(ResponsesReplyTest, AnErrorMayComeFirst) {
  std::string bytes;
  format_->AppendError(
      WithDetails(absl::ResourceExhaustedError("full"),
                  {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Seconds(1)}),
      bytes);
  const std::vector<Json> events = Events(bytes);
  EXPECT_THAT(Types(events),
              ElementsAre("response.created", "response.in_progress",
                          "response.failed"));
  EXPECT_EQ(events[2]["response"]["error"]["code"], "rate_limit_exceeded");
}

TEST_F(ResponsesReplyTest, AResponseCanBeReadAndDeleted) {
  Begin(R"({"input":"hi","metadata":{"k":"v"}})");
  Delta reply = End(v1::FINISH_REASON_END_TOKEN);
  reply.set_text("a");
  const Json response = Whole(reply);
  const std::string id = response["id"];
  EXPECT_EQ(Json::parse(StoredResponse(shelf_, id).body), response);
  EXPECT_EQ(response["metadata"]["k"], "v");
  EXPECT_EQ(StoredResponse({store_, "other"}, id).status, 404);
  EXPECT_EQ(DeletedResponse({store_, "other"}, id).status, 404);
  const Json deleted = Json::parse(DeletedResponse(shelf_, id).body);
  EXPECT_EQ(deleted["id"], id);
  EXPECT_EQ(deleted["deleted"], true);
  const HttpResponse gone = DeletedResponse(shelf_, id);
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(Json::parse(gone.body)["error"]["type"], "not_found_error");
  EXPECT_EQ(StoredResponse(shelf_, id).status, 404);
}

TEST_F(ResponsesReplyTest, AStreamIsKeptAsTheWhole) {
  const std::vector<Json> events =
      Stream({Text("a"), End(v1::FINISH_REASON_MAX_TOKENS)});
  const Json& response = events.back()["response"];
  const HttpResponse kept =
      StoredResponse(shelf_, response["id"].get<std::string>());
  EXPECT_EQ(Json::parse(kept.body), response);
}

TEST_F(ResponsesReplyTest, WhatIsNotToBeStoredIsNot) {
  Begin(R"({"input":"hi","store":false})");
  Whole(End(v1::FINISH_REASON_END_TOKEN));
  EXPECT_EQ(store_.bytes(), 0);
}

TEST_F(ResponsesReplyTest, ATurnHasThoseBeforeIt) {
  Delta reply = End(v1::FINISH_REASON_END_TOKEN);
  reply.set_text("a");
  const std::string first = Whole(reply)["id"];
  Begin(Json{{"input", "more"}, {"previous_response_id", first}}.dump());
  const Json second = Whole(reply);
  EXPECT_EQ(second["previous_response_id"], first);
  const StoredTurn::Ptr turn =
      store_.Find("t", second["id"].get<std::string>());
  ASSERT_NE(turn, nullptr);
  EXPECT_EQ(turn->texts().input, R"("more")");
  ASSERT_NE(turn->previous(), nullptr);
  EXPECT_EQ(turn->previous()->texts().input, R"("hi")");
}

}  // namespace
}  // namespace plimsoll::services
