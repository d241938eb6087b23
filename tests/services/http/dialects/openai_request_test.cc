#include "services/http/dialects/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A chat of one message with these fields beside it.
absl::StatusOr<TextJob> Chat(const std::string& fields) {
  return ReadChatCompletion(testing::WithMembers(
      R"({"messages":[{"role":"user","content":"hi"}]})", fields));
}

absl::StatusOr<TextJob> Messages(const std::string& messages) {
  return ReadChatCompletion(Json{{"messages", Json::parse(messages)}});
}

absl::StatusOr<TextJob> Completion(const std::string& body) {
  return ReadCompletion(Json::parse(body));
}

std::string MessageOf(const absl::StatusOr<TextJob>& job) {
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

TEST(OpenAiRequestTest, ReadsSamplingAndStopping) {
  const TextJob job = *Chat(
      R"({"model":"m","temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,)"
      R"("presence_penalty":1,"frequency_penalty":-1,"seed":-1,)"
      R"("logit_bias":{"5":-100,"6":2.5},"max_tokens":9,"stop":["a","b"]})");
  const v1::StreamGenerateRequest& request = job.prompts.front();
  EXPECT_EQ(request.model(), "m");
  EXPECT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_EQ(request.sampling().top_k(), 7u);
  EXPECT_EQ(request.sampling().min_p(), 0.1f);
  EXPECT_EQ(request.sampling().presence_penalty(), 1.0f);
  EXPECT_EQ(request.sampling().frequency_penalty(), -1.0f);
  EXPECT_EQ(request.sampling().seed(), ~uint64_t{0});
  ASSERT_EQ(request.sampling().logit_bias_size(), 2);
  EXPECT_EQ(request.sampling().logit_bias(0).bias(), -1'000.0f);
  EXPECT_EQ(request.sampling().logit_bias(1).bias(), 2.5f);
  EXPECT_EQ(request.stopping().max_tokens(), 9u);
  EXPECT_THAT(request.stopping().stop_strings(), ElementsAre("a", "b"));
}

TEST(OpenAiRequestTest, WhatIsAbsentIsTheServersToChoose) {
  const TextJob job = *Chat("{}");
  EXPECT_FALSE(job.prompts.front().sampling().has_temperature());
  EXPECT_EQ(job.prompts.front().stopping().max_tokens(), 0u);
  EXPECT_TRUE(job.prompts.front().sampling().has_seed()) << "a random one";
  EXPECT_EQ(job.n_choices, 1);
  EXPECT_FALSE(job.is_streamed);
}

TEST(OpenAiRequestTest, TheNewerNameOfMaxTokensIsTheSame) {
  EXPECT_EQ(Chat(R"({"max_completion_tokens":3})")
                ->prompts.front()
                .stopping()
                .max_tokens(),
            3u);
  EXPECT_TRUE(Chat(R"({"max_completion_tokens":3,"max_tokens":3})").ok());
  EXPECT_THAT(MessageOf(Chat(R"({"max_completion_tokens":3,"max_tokens":4})")),
              StartsWith("max_tokens: "));
}

TEST(OpenAiRequestTest, ReadsHowAFullContextGoesOn) {
  const TextJob job = *Chat(
      R"({"stream":true,"context_policy":"roll","roll":{"pin_tokens":9}})");
  const v1::StreamGenerateRequest& request = job.prompts.front();
  EXPECT_EQ(request.context_policy(), v1::CONTEXT_POLICY_ROLL);
  EXPECT_EQ(request.roll().pin_tokens(), 9u);
  EXPECT_FALSE(Chat(R"({"context_policy":"roll","max_tokens":1})")
                   ->prompts.front()
                   .has_roll());
  EXPECT_EQ(Chat(R"({"context_policy":"stop"})")->prompts[0].context_policy(),
            v1::CONTEXT_POLICY_UNSPECIFIED);
  EXPECT_THAT(MessageOf(Chat(R"({"context_policy":"drop"})")),
              StartsWith("context_policy: "));
  EXPECT_THAT(MessageOf(Chat(R"({"context_policy":"roll"})")),
              HasSubstr("max_tokens"));
  EXPECT_THAT(MessageOf(Chat(R"({"roll":{"pin_tokens":9}})")),
              StartsWith("roll: "));
  EXPECT_THAT(MessageOf(Chat(
                  R"({"stream":true,"context_policy":"roll","roll":{"a":1}})")),
              StartsWith("roll.a: "));
}

TEST(OpenAiRequestTest, RefusesWhatIsOutOfBounds) {
  EXPECT_TRUE(Chat(R"({"n":16})").ok());
  EXPECT_THAT(MessageOf(Chat(R"({"n":17})")), StartsWith("n: "));
  EXPECT_THAT(MessageOf(Chat(R"({"n":0})")), StartsWith("n: "));
  EXPECT_TRUE(Chat(R"({"presence_penalty":2})").ok());
  EXPECT_FALSE(Chat(R"({"presence_penalty":2.1})").ok());
  EXPECT_TRUE(Chat(R"({"logprobs":true,"top_logprobs":20})").ok());
  EXPECT_FALSE(Chat(R"({"logprobs":true,"top_logprobs":21})").ok());
  EXPECT_THAT(MessageOf(Chat(R"({"top_logprobs":2})")),
              HasSubstr("without logprobs"));
  EXPECT_FALSE(Chat(R"({"max_tokens":0})").ok());
  EXPECT_FALSE(Chat(R"({"logit_bias":{"x":1}})").ok());
  EXPECT_FALSE(Chat(R"({"logit_bias":{"1":101}})").ok());
}

TEST(OpenAiRequestTest, NothingUnknownPasses) {
  EXPECT_THAT(MessageOf(Chat(R"({"tempreature":1})")),
              StartsWith("tempreature: "));
  EXPECT_TRUE(Chat(R"({"user":"me","store":true,"metadata":{"a":1}})").ok());
  EXPECT_TRUE(Chat(R"({"stop":null,"tools":null})").ok());
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"user","content":"a","x":1}])")),
              StartsWith("messages[0].x: "));
}

TEST(OpenAiRequestTest, ReadsStreams) {
  const TextJob job =
      *Chat(R"({"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_TRUE(job.is_streamed);
  EXPECT_TRUE(job.has_usage);
  EXPECT_THAT(MessageOf(Chat(R"({"stream_options":{"include_usage":true}})")),
              StartsWith("stream_options: "));
}

TEST(OpenAiRequestTest, ASchemaKeepsTheOrderOfItsProperties) {
  const TextJob job = *Chat(
      R"({"response_format":{"type":"json_schema","json_schema":{"name":"n",)"
      R"("strict":true,"schema":{"type":"object","properties":{"z":{},)"
      R"("a":{}}}}}})");
  EXPECT_EQ(job.prompts.front().constraint().json_schema(),
            R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_TRUE(Chat(R"({"response_format":{"type":"json_object"}})")
                  ->prompts.front()
                  .has_constraint());
  EXPECT_FALSE(Chat(R"({"response_format":{"type":"text"}})")
                   ->prompts.front()
                   .has_constraint());
  EXPECT_THAT(MessageOf(Chat(R"({"response_format":{"type":"yaml"}})")),
              StartsWith("response_format.type: "));
}

TEST(OpenAiRequestTest, AReplyHasOneConstraint) {
  const auto constraint = [](const std::string& fields) {
    return Chat(fields)->prompts.front().constraint();
  };
  EXPECT_EQ(constraint(R"({"grammar":"root ::= \"a\""})").gbnf(),
            R"(root ::= "a")");
  EXPECT_EQ(constraint(R"({"regex":"yes|no"})").regex(), "yes|no");
  EXPECT_EQ(constraint(R"({"json_schema":{"const":1}})").json_schema(),
            R"({"const":1})");
  const v1::OutputConstraint object = constraint(
      R"({"response_format":{"type":"json_object","schema":{"const":1},)"
      R"("schema_options":{"any_order":true}}})");
  EXPECT_EQ(object.json_schema(), R"({"const":1})");
  EXPECT_TRUE(object.schema_options().any_order());
  EXPECT_FALSE(Chat(R"({"grammar":null,"regex":null,"json_schema":null})")
                   ->prompts.front()
                   .has_constraint());
  EXPECT_THAT(MessageOf(Chat(R"({"grammar":"root ::= [a]","regex":"a"})")),
              StartsWith("grammar: "));
  EXPECT_THAT(MessageOf(Chat(R"({"regex":"a","json_schema":{}})")),
              StartsWith("regex: "));
  EXPECT_THAT(MessageOf(Chat(R"({"json_schema":{},"response_format":)"
                             R"({"type":"json_object"}})")),
              StartsWith("json_schema: "));
}

TEST(OpenAiRequestTest, ReadsHowASchemaIsRead) {
  const auto with = [](const std::string& options) {
    Json fields =
        Json::parse(R"({"response_format":{"type":"json_schema","json_schema":)"
                    R"({"schema":{}}}})");
    fields["response_format"]["json_schema"]["schema_options"] =
        Json::parse(options);
    return Chat(fields.dump());
  };
  const auto read = [&](const std::string& options) {
    return with(options)->prompts.front().constraint().schema_options();
  };
  v1::JsonSchemaOptions expected;
  expected.set_closed_objects(true);
  expected.set_any_spelling(true);
  expected.set_ignore_formats(true);
  EXPECT_EQ(read(R"({"closed_objects":true,"any_spelling":true,)"
                 R"("ignore_formats":true,"any_order":false})")
                .SerializeAsString(),
            expected.SerializeAsString());
  expected.Clear();
  expected.set_any_order(true);
  expected.set_refuse_unknown(true);
  EXPECT_EQ(
      read(R"({"any_order":true,"refuse_unknown":true})").SerializeAsString(),
      expected.SerializeAsString());
  EXPECT_THAT(MessageOf(with("[]")), StartsWith("schema_options"));
  EXPECT_THAT(MessageOf(with(R"({"any_order":1})")),
              StartsWith("schema_options.any_order: "));
  EXPECT_THAT(MessageOf(with(R"({"sorted":true})")),
              StartsWith("schema_options.sorted: "));
}

TEST(OpenAiRequestTest, ReadsMessagesOfEachRole) {
  const TextJob job = *Messages(
      R"([{"role":"developer","content":"s"},)"
      R"({"role":"user","content":[{"type":"text","text":"a"},)"
      R"({"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1",)"
      R"("type":"function","function":{"name":"f","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"{}"},)"
      R"({"role":"tool","tool_call_id":"c1","content":"it \"is\" on"}])");
  const v1::ChatPrompt& chat = job.prompts.front().chat();
  ASSERT_EQ(chat.messages_size(), 5);
  EXPECT_EQ(chat.messages(0).role(), v1::CHAT_ROLE_SYSTEM);
  EXPECT_EQ(chat.messages(1).content(), "ab");
  EXPECT_EQ(chat.messages(2).tool_calls(0).name(), "f");
  EXPECT_EQ(chat.messages(3).tool_name(), "f");
  EXPECT_EQ(chat.messages(3).content(), "{}");
  EXPECT_EQ(chat.messages(4).content(), R"("it \"is\" on")") << "JSON";
}

TEST(OpenAiRequestTest, RefusesMessagesThatItCannotRead) {
  EXPECT_THAT(MessageOf(Messages("[]")), StartsWith("messages: "));
  EXPECT_THAT(MessageOf(Messages(R"([{"role":"king","content":""}])")),
              StartsWith("messages[0].role: "));
  EXPECT_THAT(MessageOf(Messages(
                  R"([{"role":"user","content":[{"type":"image_url"}]}])")),
              HasSubstr("no images"));
  EXPECT_THAT(MessageOf(Messages(
                  R"([{"role":"tool","tool_call_id":"x","content":""}])")),
              StartsWith("messages[0].tool_call_id: "));
}

TEST(OpenAiRequestTest, ReadsTools) {
  const std::string tools =
      R"({"tools":[{"type":"function","function":{"name":"f",)"
      R"("description":"d","parameters":{"type":"object"},"strict":false}}]})";
  const v1::ChatPrompt chat = Chat(tools)->prompts.front().chat();
  ASSERT_EQ(chat.tools_size(), 1);
  EXPECT_EQ(chat.tools(0).name(), "f");
  EXPECT_EQ(chat.tools(0).parameters(), R"({"type":"object"})");
  const auto with = [&tools](const std::string& choice) {
    return Chat(testing::WithMembers(tools, choice).dump());
  };
  EXPECT_EQ(with(R"({"tool_choice":"required"})")
                ->prompts.front()
                .chat()
                .tool_choice(),
            v1::TOOL_CHOICE_REQUIRED);
  EXPECT_EQ(
      with(R"({"tool_choice":"none"})")->prompts.front().chat().tools_size(),
      0);
  EXPECT_FALSE(with(R"({"tool_choice":{"type":"function"}})").ok());
  const v1::ChatPrompt named =
      with(R"({"tool_choice":{"type":"function","function":{"name":"f"}},)"
           R"("parallel_tool_calls":false})")
          ->prompts.front()
          .chat();
  EXPECT_EQ(named.tool_choice(), v1::TOOL_CHOICE_REQUIRED);
  EXPECT_EQ(named.required_tool(), "f");
  EXPECT_TRUE(named.has_parallel_tool_calls());
  EXPECT_FALSE(named.parallel_tool_calls());
}

TEST(OpenAiRequestTest, AChoiceWithoutToolsHasToBeOneAllTheSame) {
  EXPECT_EQ(Chat(R"({"tool_choice":"required"})")
                ->prompts.front()
                .chat()
                .tool_choice(),
            v1::TOOL_CHOICE_UNSPECIFIED);
  EXPECT_THAT(MessageOf(Chat(R"({"tool_choice":"sometimes"})")),
              StartsWith("tool_choice: "));
  EXPECT_THAT(MessageOf(Chat(R"({"tool_choice":7})")),
              StartsWith("tool_choice: "));
  EXPECT_THAT(
      MessageOf(Chat(R"({"tool_choice":{"type":"function","function":{}}})")),
      StartsWith("tool_choice.function.name: "));
}

TEST(OpenAiRequestTest, WholeNumbersMayBeWrittenWithAPoint) {
  const TextJob job = *Completion(R"({"prompt":[1.0,2],"max_tokens":3.0})");
  EXPECT_THAT(job.prompts.front().tokens().ids(), ElementsAre(1u, 2u));
  EXPECT_EQ(job.prompts.front().stopping().max_tokens(), 3u);
  EXPECT_FALSE(Completion(R"({"prompt":[1.5]})").ok());
  EXPECT_FALSE(Completion(R"({"prompt":"a","max_tokens":3.5})").ok());
}

TEST(OpenAiRequestTest, APromptIsTextsOrIds) {
  EXPECT_EQ(Completion(R"({"prompt":"a"})")->prompts.front().text().text(),
            "a");
  EXPECT_EQ(Completion(R"({"prompt":["a","b"]})")->prompts.size(), 2u);
  EXPECT_THAT(Completion(R"({"prompt":[1,2]})")->prompts.front().tokens().ids(),
              ElementsAre(1, 2));
  EXPECT_EQ(Completion(R"({"prompt":[[1],[2]]})")->prompts.size(), 2u);
  for (const char* body :
       {"{}", R"({"prompt":[]})", R"({"prompt":[1,"a"]})", R"({"prompt":[-1]})",
        R"({"prompt":{}})", R"({"prompt":[null]})"}) {
    EXPECT_THAT(MessageOf(Completion(body)), StartsWith("prompt: ")) << body;
  }
}

TEST(OpenAiRequestTest, AllPromptsTogetherHaveBoundedReplies) {
  EXPECT_TRUE(Completion(R"({"prompt":["a","b"],"n":8})").ok());
  EXPECT_THAT(MessageOf(Completion(R"({"prompt":["a","b"],"n":9})")),
              StartsWith("n: asks for 18"));
}

TEST(OpenAiRequestTest, RefusesWhatCompletionsLack) {
  EXPECT_TRUE(
      Completion(R"({"prompt":"a","echo":false,"best_of":1,"suffix":null})")
          .ok());
  EXPECT_FALSE(Completion(R"({"prompt":"a","echo":true})").ok());
  EXPECT_FALSE(Completion(R"({"prompt":"a","best_of":2})").ok());
  EXPECT_FALSE(Completion(R"({"prompt":"a","suffix":"b"})").ok());
}

TEST(OpenAiRequestTest, ArgumentsGoToTheTemplate) {
  const auto job = Chat(R"({"chat_template_kwargs":{"enable_thinking":false},)"
                        R"("reasoning_effort":"low"})");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->prompts[0].chat().template_arguments(),
            R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_FALSE(Chat(R"({"chat_template_kwargs":"low"})").ok());
}

TEST(OpenAiRequestTest, ReasoningHasALimit) {
  const auto limit = [](const std::string& reasoning) {
    const auto job = Chat(Json{{"reasoning", Json::parse(reasoning)}}.dump());
    EXPECT_TRUE(job.ok()) << job.status();
    const v1::StoppingOptions& stopping = job->prompts[0].stopping();
    return stopping.has_max_reasoning_tokens()
               ? static_cast<int64_t>(stopping.max_reasoning_tokens())
               : -1;
  };
  EXPECT_EQ(limit(R"({"max_tokens":0})"), 0);
  EXPECT_EQ(limit(R"({"max_tokens":2147483647})"), 2'147'483'647);
  EXPECT_EQ(limit(R"({"effort":"low"})"), -1);
  EXPECT_FALSE(Chat(R"({"reasoning":{"max_tokens":2147483648}})").ok());
  EXPECT_FALSE(Chat(R"({"reasoning":{"max_tokens":-1}})").ok());
  EXPECT_FALSE(Chat(R"({"reasoning":{"depth":1}})").ok());
  EXPECT_FALSE(Chat(R"({"reasoning":3})").ok());
}

}  // namespace
}  // namespace plimsoll::services
