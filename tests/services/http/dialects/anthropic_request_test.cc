#include "services/http/dialects/anthropic_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AnthropicRequestTest : public ::testing::Test {
 protected:
  static constexpr char kHello[] = R"([{"role":"user","content":"hi"}])";

  // A request with these messages and fields.
  static absl::StatusOr<TextJob> MessagesWith(const std::string& messages,
                                              const std::string& fields) {
    Json body = testing::WithMembers(R"({"max_tokens":5})", fields);
    body["messages"] = Json::parse(messages);
    return ReadMessages(body);
  }

  static absl::StatusOr<TextJob> Messages(const std::string& messages) {
    return MessagesWith(messages, "{}");
  }

  static absl::StatusOr<TextJob> Hello(const std::string& fields) {
    return MessagesWith(kHello, fields);
  }

  static v1::ChatPrompt ChatOf(const absl::StatusOr<TextJob>& job) {
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->prompts.front().chat() : v1::ChatPrompt();
  }

  static std::string MessageOf(const absl::StatusOr<TextJob>& job) {
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(job.status().message());
  }
};

TEST_F(AnthropicRequestTest, ReadsSamplingAndStopping) {
  const TextJob job =
      *Hello(R"({"model":"m","temperature":0.5,"top_p":0.9,"top_k":7,)"
             R"("stop_sequences":["a","b"],"stream":true})");
  const v1::StreamGenerateRequest& request = job.prompts.front();
  EXPECT_EQ(request.model(), "m");
  EXPECT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_EQ(request.sampling().top_k(), 7u);
  EXPECT_EQ(request.stopping().max_tokens(), 5u);
  EXPECT_THAT(request.stopping().stop_strings(), ElementsAre("a", "b"));
  EXPECT_TRUE(job.is_streamed);
  EXPECT_FALSE(Hello("{}")->is_streamed);
}

TEST_F(AnthropicRequestTest, SeedsDiffer) {
  EXPECT_NE(Hello("{}")->prompts.front().sampling().seed(),
            Hello("{}")->prompts.front().sampling().seed());
}

TEST_F(AnthropicRequestTest, ALimitOfTokensIsNeeded) {
  EXPECT_THAT(MessageOf(ReadMessages(Json::parse(
                  R"({"messages":[{"role":"user","content":"hi"}]})"))),
              StartsWith("max_tokens: "));
  EXPECT_FALSE(
      ReadMessages(
          Json::parse(
              R"({"max_tokens":0,"messages":[{"role":"user","content":""}]})"))
          .ok());
}

TEST_F(AnthropicRequestTest, JoinsTextsOfAMessageAndMessagesOfARole) {
  const v1::ChatPrompt chat = ChatOf(Messages(
      R"([{"role":"user","content":[{"type":"text","text":"a"},)"
      R"({"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]},)"
      R"({"role":"user","content":"c"},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm",)"
      R"("signature":"s"},{"type":"text","text":"d","citations":null}]},)"
      R"({"role":"user","content":"e"}])"));
  ASSERT_EQ(chat.messages_size(), 3);
  EXPECT_EQ(chat.messages(0).content(), "ab\n\nc");
  EXPECT_EQ(chat.messages(1).role(), v1::CHAT_ROLE_ASSISTANT);
  EXPECT_EQ(chat.messages(1).content(), "d");
  EXPECT_EQ(chat.messages(2).content(), "e");
}

TEST_F(AnthropicRequestTest, TheSystemTextComesFirst) {
  const v1::ChatPrompt chat =
      ChatOf(Hello(R"({"system":[{"type":"text","text":"a"},)"
                   R"({"type":"text","text":"b"}]})"));
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).role(), v1::CHAT_ROLE_SYSTEM);
  EXPECT_EQ(chat.messages(0).content(), "ab");
  EXPECT_EQ(ChatOf(Hello(R"({"system":"s"})")).messages(0).content(), "s");
  EXPECT_EQ(ChatOf(Hello(R"({"system":""})")).messages_size(), 1);
}

TEST_F(AnthropicRequestTest, ReadsCallsAndTheirResults) {
  const v1::ChatPrompt chat = ChatOf(Messages(
      R"([{"role":"user","content":"x"},{"role":"assistant","content":[)"
      R"({"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"f",)"
      R"("input":{"z":1,"a":2}},{"type":"tool_use","id":"2","name":"g",)"
      R"("input":{}}]},{"role":"user","content":[)"
      R"({"type":"tool_result","tool_use_id":"1","content":"sunny"},)"
      R"({"type":"tool_result","tool_use_id":"2","is_error":true,)"
      R"("content":[{"type":"text","text":"{\"ok\":false}"}]},)"
      R"({"type":"text","text":"so?"}]}])"));
  ASSERT_EQ(chat.messages_size(), 5);
  EXPECT_EQ(chat.messages(1).content(), "t");
  ASSERT_EQ(chat.messages(1).tool_calls_size(), 2);
  EXPECT_EQ(chat.messages(1).tool_calls(0).arguments(), R"({"z":1,"a":2})");
  EXPECT_EQ(chat.messages(2).role(), v1::CHAT_ROLE_TOOL);
  EXPECT_EQ(chat.messages(2).tool_name(), "f");
  EXPECT_EQ(chat.messages(2).content(), R"("sunny")") << "JSON";
  EXPECT_EQ(chat.messages(3).tool_name(), "g");
  EXPECT_EQ(chat.messages(3).content(), R"({"ok":false})");
  EXPECT_EQ(chat.messages(4).content(), "so?");
}

TEST_F(AnthropicRequestTest, RefusesMessagesThatItCannotRead) {
  EXPECT_THAT(MessageOf(Messages("[]")), StartsWith("messages: "));
  EXPECT_THAT(
      MessageOf(Messages(
          R"([{"role":"assistant","content":[{"type":"redacted_thinking"}]}])")),
      StartsWith("messages: say nothing"));
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"king","content":""}])")),
              StartsWith("messages[0].role: "));
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"user"}])")),
              StartsWith("messages[0].content: "));
  EXPECT_THAT(
      MessageOf(Messages(R"([{"role":"user","content":[{"type":"image"}]}])")),
      StartsWith("messages[0].content[0].type: "));
  EXPECT_THAT(
      MessageOf(Messages(R"([{"role":"user","content":[{"type":"tool_result",)"
                         R"("tool_use_id":"x","content":""}]}])")),
      StartsWith("messages[0].content[0].tool_use_id: "));
  EXPECT_THAT(
      MessageOf(Messages(R"([{"role":"user","content":[{"type":"tool_use",)"
                         R"("id":"x","name":"f","input":{}}]}])")),
      StartsWith("messages[0].content[0].type: "));
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"user","content":"a"},)"
                                 R"({"role":"assistant","content":"b"}])")),
              HasSubstr("does not continue a reply"));
}

TEST_F(AnthropicRequestTest, ReadsTools) {
  const std::string tools =
      R"({"tools":[{"name":"f","description":"d","type":"custom",)"
      R"("input_schema":{"type":"object"},"strict":true}]})";
  const v1::ChatPrompt chat = ChatOf(Hello(tools));
  ASSERT_EQ(chat.tools_size(), 1);
  EXPECT_EQ(chat.tools(0).name(), "f");
  EXPECT_EQ(chat.tools(0).description(), "d");
  EXPECT_EQ(chat.tools(0).parameters(), R"({"type":"object"})");
  EXPECT_EQ(chat.tool_choice(), v1::TOOL_CHOICE_UNSPECIFIED);
  const auto with = [&tools](const std::string& choice) {
    Json fields = Json::parse(tools);
    fields["tool_choice"] = Json::parse(choice);
    return Hello(fields.dump());
  };
  EXPECT_EQ(with(R"({"type":"any"})")->prompts.front().chat().tool_choice(),
            v1::TOOL_CHOICE_REQUIRED);
  EXPECT_EQ(with(R"({"type":"none"})")->prompts.front().chat().tools_size(), 0);
  EXPECT_TRUE(
      with(R"({"type":"auto","disable_parallel_tool_use":false})").ok());
  const v1::ChatPrompt named =
      with(R"({"type":"tool","name":"f"})")->prompts.front().chat();
  EXPECT_EQ(named.tool_choice(), v1::TOOL_CHOICE_REQUIRED);
  EXPECT_EQ(named.required_tool(), "f");
  EXPECT_THAT(MessageOf(with(R"({"type":"tool"})")),
              StartsWith("tool_choice.name: "));
  const v1::ChatPrompt one =
      with(R"({"type":"auto","disable_parallel_tool_use":true})")
          ->prompts.front()
          .chat();
  EXPECT_TRUE(one.has_parallel_tool_calls());
  EXPECT_FALSE(one.parallel_tool_calls());
  EXPECT_FALSE(Hello(R"({"tool_choice":{"type":"any"}})").ok());
  EXPECT_THAT(MessageOf(Hello(R"({"tools":[{"type":"web_search_20250305"}]})")),
              StartsWith("tools[0].type: "));
}

TEST_F(AnthropicRequestTest, ToolsThatMayNotBeCalledAreReadAllTheSame) {
  EXPECT_THAT(MessageOf(Hello(
                  R"({"tools":[{"nmae":"f"}],"tool_choice":{"type":"none"}})")),
              StartsWith("tools[0].nmae: "));
}

TEST_F(AnthropicRequestTest, ASchemaConstrainsTheReply) {
  const TextJob job =
      *Hello(R"({"output_config":{"effort":"low","format":)"
             R"({"type":"json_schema","schema":{"type":"object"}}}})");
  EXPECT_EQ(job.prompts.front().constraint().json_schema(),
            R"({"type":"object"})");
  EXPECT_FALSE(Hello(R"({"output_config":{"format":{"type":"xml"}}})").ok());
}

TEST_F(AnthropicRequestTest, ReadsHowASchemaIsRead) {
  const auto job =
      Hello(R"({"output_config":{"format":{"type":"json_schema","schema":{},)"
            R"("schema_options":{"any_order":true}}}})");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->prompts.front().constraint().schema_options().any_order());
}

TEST_F(AnthropicRequestTest, ThoughtsGoToTheTemplate) {
  const auto on =
      Hello(R"({"thinking":{"type":"enabled","budget_tokens":9999}})");
  ASSERT_TRUE(on.ok()) << on.status();
  EXPECT_EQ(on->prompts[0].chat().template_arguments(),
            R"({"enable_thinking":true})");
  EXPECT_EQ(on->prompts[0].stopping().max_reasoning_tokens(), 9'999u);
  EXPECT_FALSE(Hello(R"({"thinking":{"type":"adaptive"}})")
                   ->prompts[0]
                   .stopping()
                   .has_max_reasoning_tokens());
  EXPECT_THAT(
      MessageOf(Hello(R"({"thinking":{"type":"enabled","budget_tokens":-1}})")),
      StartsWith("thinking.budget_tokens: "));
  const auto said = Messages(
      R"([{"role":"user","content":"a"},{"role":"assistant","content":[)"
      R"({"type":"thinking","thinking":"hm","signature":""},)"
      R"({"type":"text","text":"b"}]},{"role":"user","content":"c"}])");
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->prompts[0].chat().messages(1).reasoning(), "hm");
  EXPECT_EQ(said->prompts[0].chat().messages(1).content(), "b");
}

TEST_F(AnthropicRequestTest, NothingUnknownPasses) {
  EXPECT_THAT(MessageOf(Hello(R"({"tempreature":1})")),
              StartsWith("tempreature: "));
  EXPECT_TRUE(Hello(R"({"metadata":{"user_id":"me"},"service_tier":"auto",)"
                    R"("thinking":{"type":"disabled"},"container":null})")
                  .ok());
  EXPECT_THAT(MessageOf(Hello(R"({"thinking":{"type":"deep"}})")),
              StartsWith("thinking.type: "));
  EXPECT_FALSE(Hello(R"({"mcp_servers":[]})").ok());
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"user","content":"a","x":1}])")),
              StartsWith("messages[0].x: "));
}

TEST_F(AnthropicRequestTest, CountsTakeAConversationOnly) {
  const auto count = [](const std::string& fields) {
    const Json body = testing::WithMembers(
        R"({"model":"m","messages":[{"role":"user","content":"a"},)"
        R"({"role":"assistant","content":"b"}]})",
        fields);
    JsonFields read = *JsonFields::Of(body);
    v1::StreamGenerateRequest request;
    const absl::Status status = ReadMessagesToCount(read, request);
    return status.ok() ? request.chat().messages_size() : -1;
  };
  EXPECT_EQ(count("{}"), 2);
  EXPECT_EQ(count(R"({"system":"s"})"), 3);
  EXPECT_EQ(count(R"({"max_tokens":3})"), -1);
}

}  // namespace
}  // namespace plimsoll::services
