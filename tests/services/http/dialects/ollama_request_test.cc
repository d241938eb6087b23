#include "services/http/dialects/ollama_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class OllamaRequestTest : public ::testing::Test {
 protected:
  // A chat with these messages and fields.
  static absl::StatusOr<TextJob> MessagesWith(const std::string& messages,
                                              const std::string& fields) {
    Json body = testing::WithMembers(R"({"model":"m"})", fields);
    body["messages"] = Json::parse(messages);
    return ReadOllamaChat(body);
  }
  static absl::StatusOr<TextJob> Messages(const std::string& messages) {
    return MessagesWith(messages, "{}");
  }
  static absl::StatusOr<TextJob> Chat(const std::string& fields) {
    return MessagesWith(R"([{"role":"user","content":"hi"}])", fields);
  }
  static absl::StatusOr<TextJob> Options(const std::string& options) {
    return Chat(Json{{"options", Json::parse(options)}}.dump());
  }
  static absl::StatusOr<TextJob> Generate(const std::string& fields) {
    return ReadOllamaGenerate(testing::WithMembers(R"({"model":"m"})", fields));
  }
  static std::string MessageOf(const absl::StatusOr<TextJob>& job) {
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(job.status().message());
  }
};

TEST_F(OllamaRequestTest, ReadsOptions) {
  const TextJob job = *Options(
      R"({"temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"typical_p":0.8,)"
      R"("repeat_penalty":1.1,"repeat_last_n":9,"presence_penalty":1,)"
      R"("frequency_penalty":-1,"seed":5,"num_predict":9,"stop":["a","b"],)"
      R"("num_ctx":2048,"num_gpu":99,"mirostat":0})");
  const v1::StreamGenerateRequest& request = job.prompts.front();
  EXPECT_EQ(request.model(), "m");
  const v1::SamplingOptions& sampling = request.sampling();
  EXPECT_EQ(sampling.temperature(), 0.5f);
  EXPECT_EQ(sampling.top_p(), 0.9f);
  EXPECT_EQ(sampling.top_k(), 7u);
  EXPECT_EQ(sampling.min_p(), 0.1f);
  EXPECT_EQ(sampling.typical_p(), 0.8f);
  EXPECT_EQ(sampling.repetition_penalty(), 1.1f);
  EXPECT_EQ(sampling.penalty_last_tokens(), 9u);
  EXPECT_EQ(sampling.presence_penalty(), 1.0f);
  EXPECT_EQ(sampling.frequency_penalty(), -1.0f);
  EXPECT_EQ(sampling.seed(), 5u);
  EXPECT_EQ(request.stopping().max_tokens(), 9u);
  EXPECT_THAT(request.stopping().stop_strings(), ElementsAre("a", "b"));
  EXPECT_EQ(job.least_n_ctx, 2048);
}

TEST_F(OllamaRequestTest, BelowZeroMeansWithoutALimit) {
  EXPECT_EQ(
      Options(R"({"num_predict":-1})")->prompts.front().stopping().max_tokens(),
      0u);
  EXPECT_EQ(Options(R"({"repeat_last_n":-1})")
                ->prompts.front()
                .sampling()
                .penalty_last_tokens(),
            8'192u);
  const auto seed = [](const std::string& options) {
    return Options(options)->prompts.front().sampling().seed();
  };
  EXPECT_NE(seed(R"({"seed":-1})"), seed(R"({"seed":-1})"));
  EXPECT_NE(seed("{}"), seed("{}"));
}

TEST_F(OllamaRequestTest, RefusesOptionsThatItHasNot) {
  EXPECT_THAT(MessageOf(Options(R"({"tempo":1})")),
              StartsWith("options.tempo: "));
  EXPECT_THAT(MessageOf(Options(R"({"mirostat":2})")),
              StartsWith("options.mirostat: "));
  EXPECT_FALSE(Options(R"({"tfs_z":0.5})").ok());
  EXPECT_FALSE(Options(R"({"penalize_newline":false})").ok());
  EXPECT_FALSE(Options(R"({"num_ctx":0})").ok());
  EXPECT_FALSE(Options(R"({"repeat_last_n":8193})").ok());
}

TEST_F(OllamaRequestTest, StreamsUnlessTold) {
  EXPECT_TRUE(Chat("{}")->is_streamed);
  EXPECT_FALSE(Chat(R"({"stream":false})")->is_streamed);
}

TEST_F(OllamaRequestTest, AFormatConstrainsTheReply) {
  const auto schema = [](const std::string& format) {
    return Chat(Json{{"format", Json::parse(format)}}.dump())
        ->prompts.front()
        .constraint()
        .json_schema();
  };
  EXPECT_EQ(schema(R"({"type":"object"})"), R"({"type":"object"})");
  EXPECT_FALSE(schema(R"("json")").empty());
  EXPECT_TRUE(schema(R"("")").empty());
  EXPECT_THAT(MessageOf(Chat(R"({"format":"xml"})")), StartsWith("format: "));
}

TEST_F(OllamaRequestTest, ReadsCallsAndTheirResponses) {
  const auto with_answers = [](const std::string& answers) {
    Json messages = Json::parse(
        R"([{"role":"user","content":"x"},{"role":"assistant","content":"",)"
        R"("thinking":"hm","tool_calls":[)"
        R"({"function":{"name":"f","arguments":{"z":1,"a":2}}},)"
        R"({"id":"2","function":{"index":1,"name":"g","arguments":{}}}]}])");
    for (const Json& answer : Json::parse(answers)) messages.push_back(answer);
    return Messages(messages.dump());
  };
  for (const char* answers :
       {R"([{"role":"tool","content":"on"},{"role":"tool","content":"{}"}])",
        R"([{"role":"tool","content":"on","tool_name":"f"},)"
        R"({"role":"tool","content":"{}","tool_call_id":"2"}])"}) {
    const absl::StatusOr<TextJob> job = with_answers(answers);
    ASSERT_TRUE(job.ok()) << job.status();
    const v1::ChatPrompt& chat = job->prompts.front().chat();
    ASSERT_EQ(chat.messages_size(), 4);
    EXPECT_EQ(chat.messages(1).tool_calls(0).arguments(), R"({"z":1,"a":2})");
    EXPECT_EQ(chat.messages(2).tool_name(), "f");
    EXPECT_EQ(chat.messages(2).content(), R"("on")") << "JSON";
    EXPECT_EQ(chat.messages(3).tool_name(), "g");
    EXPECT_EQ(chat.messages(3).content(), "{}");
  }
  EXPECT_THAT(MessageOf(with_answers(
                  R"([{"role":"tool","content":"on","tool_name":"h"}])")),
              StartsWith("messages[2].role: "));
}

TEST_F(OllamaRequestTest, ReadsTools) {
  const v1::ChatPrompt chat =
      Chat(R"({"tools":[{"type":"function","function":{"name":"f",)"
           R"("description":"d","parameters":{"type":"object"}}}]})")
          ->prompts.front()
          .chat();
  ASSERT_EQ(chat.tools_size(), 1);
  EXPECT_EQ(chat.tools(0).name(), "f");
  EXPECT_EQ(chat.tools(0).parameters(), R"({"type":"object"})");
  EXPECT_EQ(Chat(R"({"tools":[]})")->prompts.front().chat().tools_size(), 0);
}

TEST_F(OllamaRequestTest, ReadsPrompts) {
  const v1::ChatPrompt chat =
      Generate(R"({"prompt":"p","system":"s"})")->prompts.front().chat();
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).role(), v1::CHAT_ROLE_SYSTEM);
  EXPECT_EQ(chat.messages(1).content(), "p");
  const TextJob raw = *Generate(R"({"prompt":"p","raw":true,"suffix":"",)"
                                R"("template":"","context":[],"images":null})");
  EXPECT_EQ(raw.prompts.front().text().text(), "p");
  for (const char* field :
       {R"({"suffix":"x"})", R"({"template":"x"})", R"({"context":[1]})",
        R"({"images":["x"]})", R"({"width":1})", R"({"echo":true})"}) {
    EXPECT_FALSE(
        Generate(testing::WithMembers(R"({"prompt":"p"})", field).dump()).ok())
        << field;
  }
}

TEST_F(OllamaRequestTest, WithoutAPromptItAsksForTheModelOnly) {
  EXPECT_EQ(Messages("[]")->n_choices, 0);
  EXPECT_EQ(Generate(R"({"keep_alive":"5m"})")->n_choices, 0);
  EXPECT_EQ(Generate(R"({"prompt":"p","keep_alive":0})")->n_choices, 1);
  EXPECT_FALSE(Generate(R"({"prompt":"p","keep_alive":0})")->IsUnload());
  EXPECT_FALSE(Generate(R"({"keep_alive":"5m"})")->IsUnload());
  for (const Json& now : Json::parse(R"([0,"0","0s","0m",0.0])")) {
    EXPECT_TRUE(Generate(Json{{"keep_alive", now}}.dump())->IsUnload()) << now;
  }
}

TEST_F(OllamaRequestTest, KeepAliveIsSecondsOrATextWithUnits) {
  const auto read = [](const std::string& text) {
    return Generate(
        Json{{"prompt", "p"}, {"keep_alive", Json::parse(text)}}.dump());
  };
  EXPECT_EQ(Generate(R"({"prompt":"p"})")->keep_alive, std::nullopt);
  EXPECT_EQ(read("300")->keep_alive, absl::Seconds(300));
  EXPECT_EQ(read("0.5")->keep_alive, absl::Milliseconds(500));
  EXPECT_EQ(read(R"("90")")->keep_alive, absl::Seconds(90));
  EXPECT_EQ(read(R"("1h30m")")->keep_alive, absl::Minutes(90));
  EXPECT_EQ(read("-1")->keep_alive, absl::InfiniteDuration());
  EXPECT_EQ(read(R"("-1m")")->keep_alive, absl::InfiniteDuration());
  for (const char* bad : {"true", R"("soon")", R"("")", "[]"}) {
    EXPECT_THAT(MessageOf(read(bad)), StartsWith("keep_alive: ")) << bad;
  }
}

TEST_F(OllamaRequestTest, ThinkGoesToTheTemplate) {
  const auto arguments = [](absl::StatusOr<TextJob> job) {
    return job.ok() ? job->prompts[0].chat().template_arguments()
                    : job.status().ToString();
  };
  EXPECT_EQ(arguments(Chat(R"({"think":true})")),
            R"({"enable_thinking":true})");
  EXPECT_EQ(arguments(Chat(R"({"think":false})")),
            R"({"enable_thinking":false})");
  EXPECT_EQ(arguments(Chat(R"({"think":"low"})")),
            R"({"enable_thinking":true,"reasoning_effort":"low"})");
}

TEST_F(OllamaRequestTest, NothingUnknownPasses) {
  EXPECT_THAT(MessageOf(Chat(R"({"tempreature":1})")),
              StartsWith("tempreature: "));
  EXPECT_THAT(MessageOf(Chat(R"({"think":3})")), StartsWith("think: "));
  EXPECT_TRUE(Chat(R"({"think":false,"truncate":false,"keep_alive":-1})").ok());
  EXPECT_FALSE(Chat(R"({"truncate":true})").ok());
  EXPECT_FALSE(Chat(R"({"top_logprobs":2})").ok());
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"king","content":""}])")),
              StartsWith("messages[0].role: "));
  EXPECT_THAT(
      MessageOf(Messages(R"([{"role":"user","content":"a","images":["x"]}])")),
      StartsWith("messages[0].images: "));
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"user","content":"a","x":1}])")),
              StartsWith("messages[0].x: "));
}

}  // namespace
}  // namespace plimsoll::services
