// The paths of HTTP over real sockets, with tiny random models.
#include "services/http/front/front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/generation/message_bytes.h"
#include "services/http/json.h"
#include "services/http/page.h"
#include "tests/services/http/front_fixture.h"
#include "tests/services/http/http_client.h"

namespace plimsoll::services {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(FrontTest, HealthFollowsReadinessAndTheDrain) {
  EXPECT_EQ(Get("/health").status, 503);
  front_->SetReady(true);
  EXPECT_EQ(Get("/health").body, R"({"status":"ok"})");
  gate_.Close();
  EXPECT_EQ(Get("/health").body, R"({"status":"draining"})");
  EXPECT_EQ(Post("/v1/chat/completions", Chat("{}")).status, 503);
}

TEST_F(FrontTest, LivenessIsThatOfTheProcess) {
  // Neither what it loads nor a drain is a hang.
  EXPECT_EQ(Get("/livez").body, R"({"status":"alive"})");
  gate_.Close();
  EXPECT_EQ(Get("/livez").status, 200);
  const auto hung = *Front::Start(
      {}, {*models_, gate_, *pool_, responses_, [] { return false; }});
  const ClientReply reply = HttpClient(hung->address()).Get("/livez");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, R"({"status":"hangs"})");
}

TEST_F(FrontTest, ListsModels) {
  const Json list = Json::parse(Get("/v1/models").body);
  ASSERT_EQ(list.at("data").size(), 2u);
  EXPECT_EQ(list.at("data")[0].at("id"), "a");
  EXPECT_EQ(list.at("data")[0].at("max_model_len"), 256);
  EXPECT_EQ(list.at("data")[1].at("state"), "unloaded");
  EXPECT_EQ(Json::parse(Get("/v1/models/b").body).at("id"), "b");
  EXPECT_EQ(Get("/v1/models/c").status, 404);
}

TEST_F(FrontTest, OtherPathsAndMethodsAreRefused) {
  EXPECT_EQ(Get("/page/none.js").status, 404);
  EXPECT_EQ(Get("/v1/modelsx").status, 404);
  const ClientReply wrong = Get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_THAT(wrong.head, HasSubstr("allow: post"));
  EXPECT_EQ(Post("/health", "").status, 405);
  EXPECT_EQ(Post("/", "").status, 405);
  EXPECT_EQ(Post("/plimsoll/status", "").status, 405);
}

TEST_F(FrontTest, MetricsFollowReadiness) {
  EXPECT_EQ(Get("/metrics").body, "ready 0\n");
  front_->SetReady(true);
  const ClientReply reply = Get("/metrics");
  EXPECT_EQ(reply.body, "ready 1\n");
  EXPECT_THAT(reply.head, HasSubstr("content-type: text/plain; version=0.0.4"));
  EXPECT_EQ(Post("/metrics", "").status, 405);
}

TEST_F(FrontTest, WithoutMetricsThereIsNothing) {
  const auto bare = *Front::Start({}, {*models_, gate_, *pool_, responses_});
  EXPECT_EQ(HttpClient(bare->address()).Get("/metrics").status, 404);
}

TEST_F(FrontTest, ThePageIsSentOnce) {
  const ClientReply page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.head, HasSubstr("content-type: text/html; charset=utf-8"));
  EXPECT_THAT(page.head, HasSubstr("content-security-policy: default-src"));
  EXPECT_THAT(page.head, HasSubstr("x-content-type-options: nosniff"));
  EXPECT_THAT(page.body, HasSubstr("page/main.js"));
  EXPECT_EQ(Get("/page/main.js").status, 200);

  const std::string tag(FindPageFile("/")->etag);
  EXPECT_THAT(page.head, HasSubstr(absl::StrCat("etag: ", tag)));
  HttpClient client(front_->address());
  client.Send(client.Request(
      "GET", "/", {.headers = absl::StrCat("If-None-Match: ", tag, "\r\n")}));
  const ClientReply same = client.Read();
  EXPECT_EQ(same.status, 304);
  EXPECT_THAT(same.head, Not(HasSubstr("content-length")));
  // The connection goes on behind the head alone.
  EXPECT_EQ(client.Get("/health").status, 503);
  client.Send(client.Request("HEAD", "/", {}));
  EXPECT_THAT(client.ReadHead().head,
              HasSubstr(absl::StrCat("content-length: ", page.body.size())));
  EXPECT_EQ(client.Get("/health").status, 503);
}

TEST_F(FrontTest, TheStatusHasPlansBesideMeasurements) {
  front_->SetReady(true);
  const ClientReply reply = Get("/plimsoll/status");
  EXPECT_THAT(reply.head, HasSubstr("cache-control: no-store"));
  const Json status = Json::parse(reply.body);
  EXPECT_EQ(status.at("state"), "ok");
  ASSERT_EQ(status.at("models").size(), 2u);
  const Json& loaded = status.at("models")[0];
  EXPECT_EQ(loaded.at("id"), "a");
  EXPECT_EQ(loaded.at("state"), "ready");
  EXPECT_EQ(loaded.at("n_ctx"), 256);
  EXPECT_EQ(loaded.at("n_slots"), 2);
  EXPECT_EQ(loaded.at("kv_pages"), 8);
  EXPECT_EQ(loaded.at("page_tokens"), 64);
  EXPECT_EQ(status.at("models")[1].at("state"), "unloaded");
  EXPECT_TRUE(status.at("models")[1].at("parts").empty());

  ASSERT_EQ(loaded.at("parts").size(), 1u);
  const Json& part = loaded.at("parts")[0];
  EXPECT_EQ(part.at("measured").at("arena_bytes"),
            part.at("measured").at("arena_planned_bytes"));
  int64_t sum = 0;
  for (const Json& region : part.at("regions")) {
    if (!region.contains("on_host") && !region.contains("mapped")) {
      sum += region.at("bytes").get<int64_t>();
    }
    EXPECT_FALSE(region.at("formula").get<std::string>().empty());
  }
  EXPECT_LE(sum, part.at("total_bytes").get<int64_t>());

  ASSERT_EQ(status.at("devices").size(), 1u);
  const Json& device = status.at("devices")[0];
  EXPECT_EQ(device.at("id"), part.at("device"));
  EXPECT_EQ(device.at("planned_bytes"), part.at("total_bytes"));
  EXPECT_GE(device.at("budget_bytes"), device.at("planned_bytes"));
  EXPECT_GT(device.at("measured_bytes").get<int64_t>(), 0);
  EXPECT_GE(device.at("peak_bytes"), device.at("measured_bytes"));
}

// Both are below one line: what the first one took is no part of what the
// second one found.
TEST_F(FrontTest, ModelsOfOneDeviceShareItsLoadLine) {
  const Json before = Json::parse(Get("/plimsoll/status").body);
  const auto load = std::make_shared<LoadEnd>();
  ASSERT_TRUE(registry_->Load("b", Options().load, load).ok());
  ASSERT_TRUE(load->Await().ok());
  const Json after = Json::parse(Get("/plimsoll/status").body);
  const auto number = [](const Json& status, const char* name) {
    return status.at("devices")[0].at(name).get<int64_t>();
  };
  EXPECT_EQ(after.at("devices").size(), 1u);
  EXPECT_EQ(number(after, "planned_bytes"),
            2 * number(before, "planned_bytes"));
  EXPECT_LE(number(after, "budget_bytes"), number(before, "budget_bytes"));
  EXPECT_GT(number(after, "budget_bytes"), number(after, "planned_bytes"));
}

TEST_F(FrontTest, AnswersAChat) {
  const Json reply = PostJson("/v1/chat/completions", Chat("{}"));
  EXPECT_EQ(reply.at("object"), "chat.completion");
  EXPECT_THAT(reply.at("id").get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(reply.at("model"), "a");
  const Json& choice = reply.at("choices")[0];
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_TRUE(choice.at("logprobs").is_null());
  const Json& usage = reply.at("usage");
  EXPECT_EQ(usage.at("completion_tokens"), 8);
  EXPECT_EQ(usage.at("total_tokens"), usage.at("prompt_tokens").get<int>() + 8);
}

TEST_F(FrontTest, AStreamHasTheTextOfTheWholeReply) {
  const Json whole = PostJson("/v1/chat/completions", Chat("{}"));
  const std::vector<Json> events = PostStream(
      "/v1/chat/completions",
      Chat(R"({"stream":true,"stream_options":{"include_usage":true}})"));
  EXPECT_EQ(events.front().at("choices")[0].at("delta").at("role"),
            "assistant");
  std::string text;
  for (const Json& event : events) {
    EXPECT_EQ(event.at("object"), "chat.completion.chunk");
    if (event.at("choices").empty()) continue;
    text += event.at("choices")[0].at("delta").value("content", "");
  }
  EXPECT_EQ(
      text,
      whole.at("choices")[0].at("message").at("content").get<std::string>());
  const Json& finish = events[events.size() - 2];
  EXPECT_EQ(finish.at("choices")[0].at("finish_reason"), "length");
  EXPECT_EQ(events.back().at("usage").at("completion_tokens"), 8);
}

TEST_F(FrontTest, SeveralRepliesDifferAndShareTheirPrompt) {
  const Json reply = PostJson(
      "/v1/chat/completions",
      R"({"model":"a","messages":[{"role":"user","content":"hello"}],)"
      R"("max_tokens":8,"ignore_eos":true,"n":3,"temperature":1,"top_k":0,)"
      R"("top_p":1,"min_p":0,"seed":7})");
  ASSERT_EQ(reply.at("choices").size(), 3u);
  EXPECT_EQ(reply.at("choices")[2].at("index"), 2);
  EXPECT_NE(reply.at("choices")[0].at("message"),
            reply.at("choices")[1].at("message"));
  EXPECT_EQ(reply.at("usage").at("completion_tokens"), 24);
  const Json one = PostJson("/v1/chat/completions", Chat("{}"));
  EXPECT_EQ(reply.at("usage").at("prompt_tokens"),
            one.at("usage").at("prompt_tokens"));
}

TEST_F(FrontTest, GivesLogProbabilities) {
  const Json reply = PostJson("/v1/chat/completions",
                              Chat(R"({"logprobs":true,"top_logprobs":3})"));
  const Json& content = reply.at("choices")[0].at("logprobs").at("content");
  ASSERT_EQ(content.size(), 8u);
  ASSERT_EQ(content[0].at("top_logprobs").size(), 3u);
  EXPECT_EQ(content[0].at("top_logprobs")[0].at("token"),
            content[0].at("token"))
      << "greedy";
  EXPECT_TRUE(content[0].at("bytes").is_array());
  const Json completion =
      PostJson("/v1/completions", Completion(R"({"prompt":"a","logprobs":2})"));
  const Json& legacy = completion.at("choices")[0].at("logprobs");
  EXPECT_EQ(legacy.at("tokens").size(), 8u);
  EXPECT_EQ(legacy.at("text_offset")[0], 0);
}

TEST_F(FrontTest, CompletesTextsAndIds) {
  const Json reply =
      PostJson("/v1/completions", Completion(R"({"prompt":["a","b"],"n":2})"));
  EXPECT_EQ(reply.at("object"), "text_completion");
  ASSERT_EQ(reply.at("choices").size(), 4u);
  EXPECT_EQ(reply.at("choices")[0].at("text"),
            reply.at("choices")[1].at("text"))
      << "greedy";
  const Json ids =
      PostJson("/tokenize", R"({"model":"a","prompt":"a"})").at("tokens");
  const Json same =
      PostJson("/v1/completions", Completion(Json{{"prompt", ids}}.dump()));
  EXPECT_EQ(same.at("choices")[0].at("text"),
            reply.at("choices")[0].at("text"));
}

TEST_F(FrontTest, AReplyIsAsItsSchemaSays) {
  const Json reply = PostJson(
      "/v1/chat/completions",
      R"({"model":"a","messages":[{"role":"user","content":"x"}],)"
      R"("max_tokens":40,"response_format":{"type":"json_schema",)"
      R"("json_schema":{"name":"n","schema":{"type":"object","properties":)"
      R"({"ok":{"type":"boolean"}},"required":["ok"],)"
      R"("additionalProperties":false}}}})");
  const Json& choice = reply.at("choices")[0];
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_TRUE(Json::parse(choice.at("message").at("content").get<std::string>())
                  .at("ok")
                  .is_boolean());
}

TEST_F(FrontTest, SaysWhatIsWrong) {
  const ClientReply unknown =
      Post("/v1/chat/completions", Chat(R"({"tempo":1})"));
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(ErrorOf(unknown).at("param"), "tempo");
  const ClientReply no_json = Post("/v1/chat/completions", "{");
  EXPECT_EQ(no_json.status, 400);
  const ClientReply no_model =
      Post("/v1/completions", R"({"model":"c","prompt":"a"})");
  EXPECT_EQ(no_model.status, 404);
  EXPECT_EQ(ErrorOf(no_model).at("code"), "model_not_found");
  EXPECT_EQ(Post("/v1/completions", R"({"model":"b","prompt":"a"})").status,
            503);
  EXPECT_EQ(
      ErrorOf(Post("/v1/chat/completions", Chat(R"({"top_p":0})"))).at("param"),
      "top_p");
}

TEST_F(FrontTest, AContextThatIsTooShortIsAnErrorWithBothNumbers) {
  const Json ids = std::vector<int>(300, 1);
  for (const bool stream : {false, true}) {
    const ClientReply reply =
        Post("/v1/completions",
             Completion(Json{{"prompt", ids}, {"stream", stream}}.dump()));
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(ErrorOf(reply).at("code"), "context_length_exceeded");
    EXPECT_THAT(ErrorOf(reply).at("message").get<std::string>(),
                ::testing::AllOf(HasSubstr("300"), HasSubstr("256")));
  }
}

TEST_F(FrontTest, SaysWhatLeavesAContextThatRolls) {
  Json rolling =
      Json::parse(R"({"context_policy":"roll","roll":{"pin_tokens":3}})");
  rolling["prompt"] = std::vector<int>(300, 1);
  const Json whole = PostJson("/v1/completions", Completion(rolling.dump()));
  const Json& evictions = whole.at("choices")[0].at("evictions");
  ASSERT_FALSE(evictions.empty());
  EXPECT_EQ(evictions[0].at("position"), 3);
  EXPECT_GT(evictions[0].at("tokens").get<int>(), 300 - 256);
  EXPECT_LE(evictions[0].at("kept_tokens").get<int>(), 256);
  Json streamed = Json::array();
  rolling["stream"] = true;
  for (const Json& event :
       PostStream("/v1/completions", Completion(rolling.dump()))) {
    for (const Json& one :
         event.at("choices")[0].value("evictions", Json::array())) {
      streamed.push_back(one);
    }
  }
  EXPECT_EQ(streamed, evictions);

  std::string text;
  for (int i = 0; i < 300; ++i) text += "a ";
  Json chat = Json::parse(R"({"model":"a","messages":[{"role":"user"}],)"
                          R"("max_tokens":8,"ignore_eos":true,)"
                          R"("context_policy":"roll"})");
  chat["messages"][0]["content"] = text;
  const Json reply = PostJson("/v1/chat/completions", chat.dump());
  EXPECT_FALSE(reply.at("choices")[0].at("evictions").empty());
  bool is_told = false;
  chat["stream"] = true;
  for (const Json& event : PostStream("/v1/chat/completions", chat.dump())) {
    is_told |= event.at("choices")[0].contains("evictions");
  }
  EXPECT_TRUE(is_told);
  EXPECT_FALSE(PostJson("/v1/chat/completions", Chat("{}"))
                   .at("choices")[0]
                   .contains("evictions"));
}

TEST_F(FrontTest, TokenizesAndBack) {
  const Json tokens =
      PostJson("/tokenize", R"({"model":"a","content":"hello"})");
  EXPECT_EQ(tokens.at("count"), tokens.at("tokens").size());
  EXPECT_EQ(tokens.at("max_model_len"), 256);
  const Json text =
      PostJson("/detokenize",
               Json{{"model", "a"}, {"tokens", tokens.at("tokens")}}.dump());
  EXPECT_EQ(text.at("content"), "hello");
  EXPECT_EQ(text.at("prompt"), "hello");
  const Json chat = PostJson(
      "/tokenize",
      R"({"model":"a","messages":[{"role":"user","content":"hello"}]})");
  EXPECT_GT(chat.at("count").get<int>(), tokens.at("count").get<int>());
  EXPECT_EQ(Post("/tokenize", R"({"model":"a"})").status, 400);
  EXPECT_EQ(Post("/detokenize", R"({"model":"a","tokens":[-1]})").status, 400);
}

TEST_F(FrontTest, AClientThatDoesNotReadPausesItsStream) {
  const std::string body =
      R"({"model":"a","prompt":"a","stream":true,"ignore_eos":true,)"
      R"("logprobs":5,"context_policy":"roll"})";
  HttpClient client = HttpClient::WithSmallBuffer(front_->address());
  client.Send(client.Request("POST", "/v1/completions", {.body = body}));
  while (!IsParked()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_LE(registry_->messages().traffic().held_bytes,
            kReplyPerByte * kMaxPendingBytes +
                kWorkPerByte * static_cast<int64_t>(body.size()));
  client.Close();
  AwaitIdle();
}

TEST_F(FrontTest, AClientThatGoesAwayFreesItsSlot) {
  HttpClient client(front_->address());
  client.Send(client.Request(
      "POST", "/v1/completions",
      {.body =
           R"({"model":"a","prompt":"a","stream":true,"ignore_eos":true})"}));
  EXPECT_EQ(client.ReadHead().status, 200);
  client.Close();
  AwaitIdle();
}

TEST_F(FrontTest, AClientThatGoesAwayBeforeAWholeReplyFreesItsSlot) {
  HttpClient client(front_->address());
  client.Send(client.Request(
      "POST", "/v1/completions",
      {.body = R"({"model":"a","prompt":"a","n":16,"ignore_eos":true})"}));
  while (registry_->List()[0].ready->load.running == 0) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  client.Close();
  AwaitIdle();
}

TEST_F(FrontTest, ADrainWaitsForReplies) {
  HttpClient client(front_->address());
  client.Send(
      client.Request("POST", "/v1/completions",
                     {.body = Completion(R"({"prompt":"a","stream":true})")}));
  EXPECT_EQ(client.ReadHead().status, 200);
  front_->Drain(absl::Seconds(20), [] { ADD_FAILURE() << "it took long"; });
  std::string body;
  while (client.ReadChunk(body)) continue;
  EXPECT_THAT(body, EndsWith("data: [DONE]\n\n"));
  EXPECT_TRUE(client.IsClosed());
}

}  // namespace
}  // namespace plimsoll::services
