#include "services/http/dialects/responses_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kFunction[] =
    R"({"tools":[{"type":"function","name":"f","description":"d",)"
    R"("strict":true,"parameters":{"type":"object"}}]})";

class ResponsesRequestTest : public ::testing::Test {
 protected:
  absl::StatusOr<TextJob> Read(const std::string& body) {
    ByteBudget::Share held = budget_.Enter("peer");
    ReadRoom room{{store_, "t"}, held};
    return ReadResponse(Json::parse(body), room);
  }
  // A request with "hi" as input, and with these fields.
  absl::StatusOr<TextJob> Hello(const std::string& fields) {
    return Read(testing::WithMembers(R"({"input":"hi"})", fields).dump());
  }
  v1::ChatPrompt ChatOf(const std::string& body) {
    const absl::StatusOr<TextJob> job = Read(body);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->prompts.front().chat() : v1::ChatPrompt();
  }
  static std::string MessageOf(const absl::StatusOr<TextJob>& job) {
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(job.status().message());
  }

  ResponseStore store_;
  ByteBudget budget_{64 << 20};
};

TEST_F(ResponsesRequestTest, ReadsSamplingAndStopping) {
  const TextJob job =
      *Hello(R"({"model":"m","temperature":0.5,"top_p":0.9,"top_k":7,)"
             R"("seed":3,"max_output_tokens":5,"stream":true})");
  const v1::StreamGenerateRequest& request = job.prompts.front();
  EXPECT_EQ(request.model(), "m");
  EXPECT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_EQ(request.sampling().top_k(), 7u);
  EXPECT_EQ(request.sampling().seed(), 3u);
  EXPECT_EQ(request.stopping().max_tokens(), 5u);
  EXPECT_TRUE(job.is_streamed);
  EXPECT_TRUE(job.keeps_reply);
  EXPECT_TRUE(Hello("{}")->prompts.front().sampling().has_seed());
  EXPECT_FALSE(Hello(R"({"max_output_tokens":0})").ok());
}

TEST_F(ResponsesRequestTest, ATextIsAUsersMessage) {
  const v1::ChatPrompt chat =
      ChatOf(R"({"input":"hi","instructions":"be brief"})");
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).role(), v1::CHAT_ROLE_SYSTEM);
  EXPECT_EQ(chat.messages(0).content(), "be brief");
  EXPECT_EQ(chat.messages(1).role(), v1::CHAT_ROLE_USER);
  EXPECT_EQ(chat.messages(1).content(), "hi");
  for (const char* body : {"{}", R"({"input":[]})", R"({"input":5})"}) {
    EXPECT_THAT(MessageOf(Read(body)), StartsWith("input: ")) << body;
  }
}

TEST_F(ResponsesRequestTest, ReadsTheFormatOfTheText) {
  const auto constraint = [this](const std::string& format) {
    return Hello(Json{{"text", {{"format", Json::parse(format)}}}}.dump())
        ->prompts.front()
        .constraint()
        .json_schema();
  };
  EXPECT_EQ(constraint(R"({"type":"text"})"), "");
  EXPECT_THAT(constraint(R"({"type":"json_object"})"), HasSubstr("object"));
  EXPECT_EQ(constraint(R"({"type":"json_schema","name":"n","strict":true,)"
                       R"("schema":{"type":"object","properties":{"z":{},)"
                       R"("a":{}}}})"),
            R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_TRUE(Hello(R"({"text":{"verbosity":"low"}})").ok());
  EXPECT_THAT(MessageOf(Hello(R"({"text":{"format":{"type":"yaml"}}})")),
              StartsWith("text.format.type: "));
  EXPECT_THAT(MessageOf(Hello(R"({"text":{"format":{"type":"json_schema"}}})")),
              StartsWith("text.format.schema: "));
  EXPECT_THAT(MessageOf(Hello(R"({"text":{"tone":1}})")),
              StartsWith("text.tone: "));
}

TEST_F(ResponsesRequestTest, ReadsHowASchemaIsRead) {
  const auto job =
      Hello(R"({"text":{"format":{"type":"json_schema","schema":{},)"
            R"("schema_options":{"refuse_unknown":true}}}})");
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::OutputConstraint& constraint = job->prompts.front().constraint();
  EXPECT_TRUE(constraint.schema_options().refuse_unknown());
  EXPECT_FALSE(constraint.schema_options().any_order());
}

TEST_F(ResponsesRequestTest, ToolsAreFlat) {
  const auto with = [](const std::string& fields) {
    return testing::WithMembers(kFunction, fields).dump();
  };
  const v1::ChatPrompt chat = ChatOf(with(R"({"input":"hi"})"));
  ASSERT_EQ(chat.tools_size(), 1);
  EXPECT_EQ(chat.tools(0).name(), "f");
  EXPECT_EQ(chat.tools(0).description(), "d");
  EXPECT_EQ(chat.tools(0).parameters(), R"({"type":"object"})");
  const v1::ChatPrompt named =
      ChatOf(with(R"({"input":"hi","parallel_tool_calls":false,)"
                  R"("tool_choice":{"type":"function","name":"f"}})"));
  EXPECT_EQ(named.tool_choice(), v1::TOOL_CHOICE_REQUIRED);
  EXPECT_EQ(named.required_tool(), "f");
  EXPECT_FALSE(named.parallel_tool_calls());
  EXPECT_EQ(ChatOf(with(R"({"input":"hi","tool_choice":"none"})")).tools_size(),
            0);
  EXPECT_THAT(MessageOf(Hello(R"({"tools":[{"type":"web_search"}]})")),
              StartsWith("tools[0].type: "));
  EXPECT_THAT(
      MessageOf(Hello(with(R"({"tool_choice":{"type":"allowed_tools"}})"))),
      StartsWith("tool_choice.type: "));
}

TEST_F(ResponsesRequestTest, EffortGoesToTheTemplate) {
  const auto arguments = [this](const std::string& fields) {
    return Hello(fields)->prompts.front().chat().template_arguments();
  };
  EXPECT_EQ(arguments(R"({"reasoning":{"effort":"low","summary":"auto"}})"),
            R"({"reasoning_effort":"low"})");
  EXPECT_EQ(arguments(R"({"reasoning":{"effort":"none"}})"),
            R"({"enable_thinking":false})");
  EXPECT_EQ(arguments(R"({"reasoning":{"effort":null}})"), "");
  EXPECT_EQ(Hello(R"({"reasoning":{"max_tokens":9}})")
                ->prompts[0]
                .stopping()
                .max_reasoning_tokens(),
            9u);
  EXPECT_EQ(arguments(R"({"chat_template_kwargs":{"a":1}})"), R"({"a":1})");
  EXPECT_THAT(MessageOf(Hello(R"({"reasoning":{"depth":1}})")),
              StartsWith("reasoning.depth: "));
}

TEST_F(ResponsesRequestTest, NothingUnknownPasses) {
  EXPECT_THAT(MessageOf(Hello(R"({"tempreature":1})")),
              StartsWith("tempreature: "));
  EXPECT_THAT(MessageOf(Hello(R"({"stop":["a"]})")), StartsWith("stop: "));
  EXPECT_THAT(MessageOf(Hello(R"({"stream_options":{}})")),
              StartsWith("stream_options: "));
}

TEST_F(ResponsesRequestTest, SomeIsTakenOnlyAsItIsHere) {
  EXPECT_TRUE(Hello(R"({"background":false,"truncation":"disabled",)"
                    R"("conversation":null,"top_logprobs":0,)"
                    R"("include":["reasoning.encrypted_content"]})")
                  .ok());
  for (const char* field :
       {R"({"background":true})", R"({"truncation":"auto"})",
        R"({"conversation":"c"})", R"({"prompt":{"id":"p"}})",
        R"({"context_management":[]})", R"({"top_logprobs":1})",
        R"({"include":["message.output_text.logprobs"]})",
        R"({"metadata":{"a":1}})"}) {
    const std::string name = Json::parse(field).begin().key();
    EXPECT_THAT(MessageOf(Hello(field)), StartsWith(name + ": ")) << field;
  }
}

TEST_F(ResponsesRequestTest, IncludesAreBounded) {
  Json names = Json::array();
  for (size_t i = 0; i < kMaxIncluded; ++i) {
    names.push_back("file_search_call.results");
  }
  EXPECT_TRUE(Hello(Json{{"include", names}}.dump()).ok());
  names.push_back("a");
  EXPECT_FALSE(Hello(Json{{"include", names}}.dump()).ok());
}

TEST_F(ResponsesRequestTest, AccountsAreIgnored) {
  EXPECT_TRUE(Hello(R"({"user":"me","service_tier":"flex",)"
                    R"("safety_identifier":"s","prompt_cache_key":"k",)"
                    R"("prompt_cache_retention":"24h","max_tool_calls":1,)"
                    R"("prompt_cache_options":{"ttl":"30m"}})")
                  .ok());
}

TEST_F(ResponsesRequestTest, TheResponseRepeatsTheRequest) {
  const Json defaults = Json::parse(Hello("{}")->response->echo);
  EXPECT_EQ(defaults["tools"], Json::array());
  EXPECT_EQ(defaults["tool_choice"], "auto");
  EXPECT_EQ(defaults["parallel_tool_calls"], true);
  EXPECT_EQ(defaults["metadata"], Json::object());
  EXPECT_EQ(defaults["store"], true);
  EXPECT_EQ(defaults["truncation"], "disabled");
  EXPECT_EQ(defaults["text"]["format"]["type"], "text");
  EXPECT_TRUE(defaults["temperature"].is_null());
  EXPECT_TRUE(defaults["instructions"].is_null());
  const TextJob job =
      *Hello(testing::WithMembers(
                 R"({"instructions":"s","temperature":0.5,"store":false,)"
                 R"("metadata":{"k":"v"},"reasoning":{"effort":"low"}})",
                 kFunction)
                 .dump());
  const Json echo = Json::parse(job.response->echo);
  EXPECT_EQ(echo["instructions"], "s");
  EXPECT_EQ(echo["temperature"], 0.5);
  EXPECT_EQ(echo["metadata"]["k"], "v");
  EXPECT_EQ(echo["reasoning"]["effort"], "low");
  EXPECT_EQ(echo["tools"][0]["name"], "f");
  EXPECT_FALSE(job.response->is_kept);
  EXPECT_EQ(job.response->input, R"("hi")");
}

TEST_F(ResponsesRequestTest, GoesOnFromAnEarlierResponse) {
  store_.Keep("t", "resp_1",
              {R"("first")",
               R"([{"type":"message","id":"m","status":"completed",)"
               R"("role":"assistant","content":[{"type":"output_text",)"
               R"("text":"one","annotations":[],"logprobs":[]}]},)"
               R"({"type":"function_call","id":"fc","status":"completed",)"
               R"("call_id":"c","name":"f","arguments":"{}"}])",
               R"({"instructions":"old"})"},
              nullptr);
  store_.Keep("t", "resp_2",
              {R"([{"type":"function_call_output","call_id":"c",)"
               R"("output":"done"}])",
               "[]", "{}"},
              store_.Find("t", "resp_1"));
  const v1::ChatPrompt chat = ChatOf(R"({"input":"next","instructions":"new",)"
                                     R"("previous_response_id":"resp_2"})");
  ASSERT_EQ(chat.messages_size(), 5);
  EXPECT_EQ(chat.messages(0).content(), "new") << "the old ones are not kept";
  EXPECT_EQ(chat.messages(1).content(), "first");
  EXPECT_EQ(chat.messages(2).content(), "one");
  EXPECT_EQ(chat.messages(2).tool_calls(0).name(), "f");
  EXPECT_EQ(chat.messages(3).role(), v1::CHAT_ROLE_TOOL);
  EXPECT_EQ(chat.messages(3).tool_name(), "f");
  EXPECT_EQ(chat.messages(4).content(), "next");
  // A call of an earlier turn may be answered now.
  EXPECT_EQ(ChatOf(R"({"previous_response_id":"resp_1","input":[)"
                   R"({"type":"function_call_output","call_id":"c",)"
                   R"("output":"1"}]})")
                .messages(2)
                .tool_name(),
            "f");
}

TEST_F(ResponsesRequestTest, AnIdThatIsGoneSaysWhatToDo) {
  store_.Keep("other", "resp_1", {R"("a")", "[]", "{}"}, nullptr);
  const auto job = Hello(R"({"previous_response_id":"resp_1"})");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(job.status().message()),
      ::testing::AllOf(StartsWith("previous_response_id: "), HasSubstr("4096"),
                       HasSubstr("16 MiB"), HasSubstr("as input instead")));
}

TEST_F(ResponsesRequestTest, TurnsAreReadAgainUpToALimit) {
  const auto go_on_from = [this](int64_t n_bytes) {
    const std::string text(static_cast<size_t>(n_bytes) - 4, 'x');
    store_.Keep("t", "resp_1", {Json(text).dump(), "[]", "{}"}, nullptr);
    return Hello(R"({"previous_response_id":"resp_1"})");
  };
  EXPECT_TRUE(go_on_from(kMaxTurnBytes).ok());
  const auto job = go_on_from(kMaxTurnBytes + 1);
  EXPECT_THAT(MessageOf(job), HasSubstr(absl::StrCat(kMaxTurnBytes)));
  EXPECT_THAT(MessageOf(job), HasSubstr(absl::StrCat(kMaxTurnBytes + 1)));
}

TEST_F(ResponsesRequestTest, TurnsCountInTheBudgetOfMessages) {
  store_.Keep("t", "resp_1", {R"("a")", "[]", "{}"}, nullptr);
  const TextJob job = *Hello(R"({"previous_response_id":"resp_1"})");
  EXPECT_EQ(job.turn_bytes, 5);
  EXPECT_EQ(job.held_bytes, static_cast<int64_t>(job.response->echo.size() +
                                                 job.response->input.size()));
  ByteBudget full(10);
  ByteBudget::Share held = full.Enter("peer");
  ReadRoom room{{store_, "t"}, held};
  EXPECT_EQ(
      ReadResponse(
          Json::parse(R"({"input":"a","previous_response_id":"resp_1"})"), room)
          .status()
          .code(),
      absl::StatusCode::kResourceExhausted);
}

TEST_F(ResponsesRequestTest, AProcessThatKeepsNothingSaysSo) {
  ResponseStore none(/*keeps=*/false);
  ByteBudget::Share held = budget_.Enter("peer");
  ReadRoom room{{none, "t"}, held};
  const auto read = [&room](const std::string& fields) {
    return ReadResponse(testing::WithMembers(R"({"input":"hi"})", fields),
                        room);
  };
  const auto job = read("{}");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->response->is_kept);
  EXPECT_EQ(Json::parse(job->response->echo)["store"], false);
  EXPECT_TRUE(read(R"({"store":false})").ok());
  EXPECT_THAT(MessageOf(read(R"({"store":true})")), HasSubstr("store"));
  EXPECT_THAT(MessageOf(read(R"({"previous_response_id":"resp_1"})")),
              HasSubstr("keeps no responses"));
}

}  // namespace
}  // namespace plimsoll::services
