// Tools over real sockets: a random model of FunctionGemma's shape and
// vocabulary whose replies are forced.
#include "services/wire/chat_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"
#include "worker/text/chat/chat_segments.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::kRandomVocab;
using ::plimsoll::testing::RandomModel;
using ::testing::HasSubstr;

constexpr int32_t kNormal = 1;
constexpr int32_t kUserDefined = 4;  // so that a grammar can force them
constexpr char kArguments[] = R"({"room":"hall","on":true})";
constexpr char kSortedArguments[] = R"({"on":true,"room":"hall"})";
// 13 tokens of the vocabulary below.
constexpr char kForced[] =
    "root ::= \"<start_function_call>call:set_light{room:<escape>hall<escape>,"
    "on:true}<end_function_call>\"";

constexpr const char* kWords[] = {"call:", "set_light", "{",    "room:", "hall",
                                  ",",     "on:",       "true", "}"};
// The markers and these words are the vocabulary's last tokens.
constexpr auto kFirstMarker = static_cast<int32_t>(
    kRandomVocab - std::size(worker::kToolMarkers) - std::size(kWords));

RandomModel FunctionModel() {
  RandomModel model = plimsoll::testing::FindRandomModel("gemma_q5_0");
  for (const absl::string_view marker : worker::kToolMarkers) {
    model.last_tokens.emplace_back(std::string(marker), kUserDefined);
  }
  for (const char* text : kWords) {
    model.last_tokens.emplace_back(text, kNormal);
  }
  return model;
}

class ChatToolsTest : public ::testing::Test {
 protected:
  // "a" has a context of 32, "b" of 512.
  static void SetUpTestSuite() {
    worker_ = new TestWorker({.model = FunctionModel()});
    v1::LoadModelRequest request;
    request.set_model("a");
    request.mutable_options()->set_max_inference_len(32);
    grpc::ClientContext context;
    const auto reader = worker_->models->LoadModel(&context, request);
    v1::LoadModelResponse message;
    while (reader->Read(&message)) continue;
    ASSERT_TRUE(reader->Finish().ok());
    ASSERT_TRUE(worker_->LoadWithContext("b", 512).ok());
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }

  static void AddMessage(v1::ChatRole role, const std::string& content,
                         v1::ChatPrompt& chat) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(role);
    message.set_content(content);
  }

  // A request whose reply can only be of `gbnf`, in the longest tokens.
  template <typename Request = v1::GenerateRequest>
  static Request Forced(const std::string& gbnf, const std::string& user) {
    Request request;
    request.set_model("a");
    v1::ChatPrompt& chat = *request.mutable_chat();
    chat.set_chat_format("functiongemma");
    AddMessage(v1::CHAT_ROLE_USER, user, chat);
    request.mutable_sampling()->set_temperature(0);
    for (int32_t id = kFirstMarker; id < kRandomVocab; ++id) {
      v1::LogitBias& bias = *request.mutable_sampling()->add_logit_bias();
      bias.set_id(static_cast<uint32_t>(id));
      bias.set_bias(1'000);
    }
    request.mutable_constraint()->set_gbnf(gbnf);
    return request;
  }

  // A request whose calls are held to the one that they can be. The model
  // writes the longest tokens.
  static v1::GenerateRequest Held(const std::string& user) {
    auto request = Forced("", user);
    request.set_model("b");
    request.clear_constraint();
    v1::ChatPrompt& chat = *request.mutable_chat();
    chat.set_parallel_tool_calls(false);
    v1::Tool& tool = *chat.add_tools();
    tool.set_name("set_light");
    tool.set_parameters(R"({"type": "object", "properties": {
        "room": {"enum": ["hall"]}, "on": {"const": true}},
        "required": ["room", "on"]})");
    return request;
  }

  static v1::GenerateResponse Ask(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    const auto status =
        worker_->generation->Generate(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  static std::string Refusal(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    const auto status =
        worker_->generation->Generate(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  }

  static TestWorker* worker_;
};

TestWorker* ChatToolsTest::worker_ = nullptr;

TEST_F(ChatToolsTest, ACallOf13TokensFitsIn32) {
  const v1::GenerateResponse response = Ask(Forced(kForced, "hi"));
  // The call, and the token that waits for its response.
  EXPECT_EQ(response.usage().generated_tokens(), 13u + 1);
  EXPECT_LE(response.usage().prompt_tokens(), 32u - 13);
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_EQ(response.tool_calls(0).name(), "set_light");
  EXPECT_EQ(response.tool_calls(0).arguments(), kArguments);
  EXPECT_EQ(response.tool_calls(0).error(), "");
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_TOOL_CALL);
  EXPECT_EQ(response.text(), "");
  EXPECT_EQ(response.tokens_size(), 14);
  EXPECT_EQ(response.chat_format(), "functiongemma");
}

TEST_F(ChatToolsTest, ThePromptHasTheOther19TokensAndNoneMore) {
  v1::GenerateResponse response = Ask(Forced(kForced, "hii"));
  EXPECT_EQ(response.usage().prompt_tokens(), 32u - 13);
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_TOOL_CALL);
  // The call is whole, but there is no place to go on from it.
  response = Ask(Forced(kForced, "hiii"));
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_LENGTH);
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_EQ(response.tool_calls(0).arguments(), kArguments);
  response = Ask(Forced(kForced, "hiiii"));
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_NE(response.tool_calls(0).error(), "");
}

TEST_F(ChatToolsTest, AStreamBringsACallWhenItIsComplete) {
  const auto request =
      Forced<v1::StreamGenerateRequest>(absl::StrCat(kForced, " \"k\""), "hi");
  grpc::ClientContext context;
  const auto reader = worker_->generation->StreamGenerate(&context, request);
  v1::StreamGenerateResponse part;
  std::string order;
  while (reader->Read(&part)) {
    for (const v1::ToolCall& call : part.tool_calls()) {
      EXPECT_EQ(call.arguments(), kArguments);
      order += call.name() + ".";
    }
    order += part.text();
    if (part.has_finish()) {
      EXPECT_EQ(part.finish().finish_reason(), v1::FINISH_REASON_TOOL_CALL);
      order += ".end";
    } else if (part.has_prompt()) {
      EXPECT_EQ(part.prompt().n_ctx(), 32u);
    }
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(order, "set_light.k.end");
}

TEST_F(ChatToolsTest, ACallThatTheContextCutsOffIsReportedAsNone) {
  const v1::GenerateResponse response = Ask(Forced(kForced, "hihihihi"));
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_LENGTH);
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_EQ(response.tool_calls(0).name(), "");
  EXPECT_EQ(response.tool_calls(0).error(),
            "the reply ended before the call did");
  EXPECT_THAT(response.tool_calls(0).text(),
              HasSubstr("call:set_light{room:<escape>"));
  EXPECT_EQ(response.text(), "");
}

TEST_F(ChatToolsTest, ACallThatMaxTokensCutsOffIsReportedAsNone) {
  auto request = Forced(kForced, "hi");
  request.mutable_stopping()->set_max_tokens(12);
  v1::GenerateResponse response = Ask(request);
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_EQ(response.tool_calls(0).text(),
            "call:set_light{room:<escape>hall<escape>,on:true}");
  EXPECT_NE(response.tool_calls(0).error(), "");
  request.mutable_stopping()->set_max_tokens(13);
  response = Ask(request);
  EXPECT_EQ(response.tool_calls(0).arguments(), kArguments);
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
}

TEST_F(ChatToolsTest, AMalformedCallIsNoReasonToWait) {
  const v1::GenerateResponse response =
      Ask(Forced("root ::= \"<start_function_call>call:set_light{room:hall}"
                 "<end_function_call>\"",
                 "hi"));
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_THAT(response.tool_calls(0).error(), HasSubstr("'hall' is no number"));
  EXPECT_EQ(response.tool_calls(0).text(), "call:set_light{room:hall}");
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_END_TOKEN);
}

TEST_F(ChatToolsTest, TheModelGoesOnBehindTheResponse) {
  auto request = Forced("root ::= \"ok\"", "hi");
  request.set_model("b");
  v1::ChatPrompt& chat = *request.mutable_chat();
  v1::Tool& tool = *chat.add_tools();
  tool.set_name("set_light");
  tool.set_description("Turns a light on or off");
  tool.set_parameters(R"({"type":"object","properties":{
      "room":{"type":"string"},"on":{"type":"boolean"}},"required":["room"]})");
  AddMessage(v1::CHAT_ROLE_ASSISTANT, "", chat);
  v1::ToolCall& call = *chat.mutable_messages(1)->add_tool_calls();
  call.set_name("set_light");
  call.set_arguments(kArguments);
  AddMessage(v1::CHAT_ROLE_TOOL, R"({"done":true})", chat);
  chat.mutable_messages(2)->set_tool_name("set_light");

  grpc::ClientContext context;
  v1::ApplyChatTemplateRequest apply;
  apply.set_model("b");
  *apply.mutable_chat() = chat;
  v1::ApplyChatTemplateResponse applied;
  ASSERT_TRUE(
      worker_->tokenizer->ApplyChatTemplate(&context, apply, &applied).ok());
  EXPECT_THAT(applied.text(), HasSubstr("declaration:set_light{description:"));
  EXPECT_THAT(
      applied.text(),
      HasSubstr("model\n<start_function_call>call:set_light{on:true,room:"
                "<escape>hall<escape>}<end_function_call>"
                "<start_function_response>response:set_light{done:true}"
                "<end_function_response>"));

  const v1::GenerateResponse response = Ask(request);
  EXPECT_EQ(response.text(), "ok");
  EXPECT_EQ(response.tool_calls_size(), 0);
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_END_TOKEN);
}

TEST_F(ChatToolsTest, ARequiredCallIsTheReply) {
  auto request = Held("hi");
  request.mutable_chat()->set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  const v1::GenerateResponse response = Ask(request);
  EXPECT_EQ(response.constraint_notes_size(), 0);
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_EQ(response.tool_calls(0).name(), "set_light");
  EXPECT_EQ(response.tool_calls(0).arguments(), kSortedArguments);
  EXPECT_EQ(response.text(), "");
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_TOOL_CALL);
}

TEST_F(ChatToolsTest, ARequiredToolIsTheOneThatIsCalled) {
  for (const std::string name : {"set_light", "say_ok"}) {
    auto request = Held("hi");
    v1::ChatPrompt& chat = *request.mutable_chat();
    v1::Tool& other = *chat.add_tools();
    other.set_name("say_ok");
    other.set_parameters(R"({"type": "object", "properties": {}})");
    chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
    chat.set_required_tool(name);
    const v1::GenerateResponse response = Ask(request);
    ASSERT_EQ(response.tool_calls_size(), 1);
    EXPECT_EQ(response.tool_calls(0).name(), name);
    EXPECT_EQ(response.tool_calls(0).error(), "");
    chat.set_required_tool("other");
    EXPECT_THAT(Refusal(request), HasSubstr("it is none of the tools"));
  }
}

// The model would write the marker of a call again and again.
TEST_F(ChatToolsTest, ACallThatTheModelBeginsIsHeldToItsTool) {
  auto request = Held("hi");
  request.mutable_sampling()->clear_logit_bias();
  v1::LogitBias& bias = *request.mutable_sampling()->add_logit_bias();
  bias.set_id(kFirstMarker + 2);
  bias.set_bias(1'000);
  const v1::GenerateResponse response = Ask(request);
  ASSERT_EQ(response.tool_calls_size(), 1);
  EXPECT_EQ(response.tool_calls(0).name(), "set_light");
  EXPECT_EQ(response.tool_calls(0).arguments(), kSortedArguments);
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_TOOL_CALL);
}

TEST_F(ChatToolsTest, APromptWithARequiredCallIsThePromptWithout) {
  v1::ApplyChatTemplateRequest apply;
  *apply.mutable_chat() = Held("hi").chat();
  apply.set_model("b");
  v1::ApplyChatTemplateResponse applied[2];
  for (const bool is_required : {false, true}) {
    grpc::ClientContext context;
    if (is_required) {
      apply.mutable_chat()->set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
    }
    ASSERT_TRUE(
        worker_->tokenizer
            ->ApplyChatTemplate(&context, apply, &applied[is_required ? 1 : 0])
            .ok());
  }
  EXPECT_EQ(applied[0].text(), applied[1].text());
  EXPECT_THAT(applied[1].text(), ::testing::EndsWith("model\n"));
}

TEST_F(ChatToolsTest, ACallCannotBeRequiredThatCannotBeHeld) {
  auto request = Held("hi");
  v1::ChatPrompt& chat = *request.mutable_chat();
  chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  request.mutable_constraint()->set_gbnf("root ::= \"k\"");
  EXPECT_THAT(Refusal(request), HasSubstr("the request has a constraint"));
  request.clear_constraint();
  chat.clear_tools();
  EXPECT_THAT(Refusal(request), HasSubstr("there are no tools"));
}

TEST_F(ChatToolsTest, ACallCannotBeRequiredWhereThereIsNone) {
  auto request = Forced("root ::= \"k\"", "hi");
  v1::ChatPrompt& chat = *request.mutable_chat();
  chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  chat.set_add_generation_prompt(false);
  EXPECT_THAT(Refusal(request), HasSubstr("without add_generation_prompt"));
  chat.clear_add_generation_prompt();
  chat.set_chat_format("gemma3");
  EXPECT_THAT(Refusal(request), HasSubstr("format gemma3 has no tools"));
  chat.clear_tool_choice();
  chat.set_required_tool("f");
  EXPECT_THAT(Refusal(request),
              HasSubstr("chat.required_tool: format gemma3 has no tools"));
  chat.set_tool_choice(static_cast<v1::ToolChoice>(99));
  EXPECT_THAT(Refusal(request), HasSubstr("not a known choice"));
}

TEST_F(ChatToolsTest, WhatMakesNoSenseIsRefused) {
  auto request = Forced("root ::= \"ok\"", "hi");
  request.set_model("b");
  v1::ChatPrompt& chat = *request.mutable_chat();
  chat.add_tools()->set_name("f");
  chat.set_chat_format("gemma3");
  EXPECT_THAT(Refusal(request), HasSubstr("format gemma3 has no tools"));
  chat.set_chat_format("functiongemma");
  chat.add_tools()->set_name("f");
  EXPECT_THAT(Refusal(request), HasSubstr("f is there twice"));
  chat.mutable_tools(1)->set_name("<escape>");
  EXPECT_THAT(Refusal(request), HasSubstr("no name of a tool"));
  chat.mutable_tools(1)->set_name("g");
  chat.mutable_tools(1)->set_parameters("{");
  EXPECT_THAT(Refusal(request), HasSubstr("the parameters of the tool g"));
  chat.clear_tools();
  chat.mutable_messages(0)->set_tool_name("f");
  EXPECT_THAT(Refusal(request), HasSubstr("chat.messages.tool_name"));
  chat.mutable_messages(0)->clear_tool_name();
  chat.mutable_messages(0)->add_tool_calls()->set_error("cut");
  EXPECT_THAT(Refusal(request), HasSubstr("what is no call: cut"));
}

TEST_F(ChatToolsTest, ToolsHaveALimit) {
  auto request = Forced("root ::= \"ok\"", "hi");
  request.set_model("b");
  v1::ChatPrompt& chat = *request.mutable_chat();
  for (int i = 0; i <= worker::kMaxTools; ++i) {
    chat.add_tools()->set_name(absl::StrCat("f", i));
  }
  EXPECT_THAT(Refusal(request), HasSubstr("has more than 64"));
  chat.mutable_tools()->RemoveLast();
  grpc::ClientContext context;
  v1::CountTokensRequest count;
  count.set_model("b");
  *count.mutable_chat() = chat;
  v1::CountTokensResponse counted;
  EXPECT_TRUE(worker_->tokenizer->CountTokens(&context, count, &counted).ok());
  EXPECT_GT(counted.n_tokens(), 64u);
}

}  // namespace
}  // namespace plimsoll::services
