// Calls of tools are held while they are written, in each form that a family's
// template has, with marks that are text and with marks that are control
// tokens.
#include "services/generation/call_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/sanitized.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/schema/schema_check.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using worker::TokenType;

constexpr char kLight[] = R"({"type": "object", "properties": {
    "room": {"enum": ["hall", "attic"]},
    "level": {"type": "integer", "minimum": 0, "maximum": 10}},
    "required": ["room"]})";
constexpr char kSay[] = R"({"properties": {
    "text": {"type": "string", "maxLength": 8}}, "required": ["text"]})";

const std::vector<worker::Tool>& Tools() {
  static const auto* const tools = new std::vector<worker::Tool>{
      {.name = "light", .description = "", .parameters = kLight},
      {.name = "say", .description = "", .parameters = kSay}};
  return *tools;
}

// How a family writes calls. In `call` the arguments of light are
// {"room":"hall","level":3}, and `wrong` has the room "cellar".
struct Family {
  const char* name;
  const char* sign;   // what its template has
  const char* first;  // what a reply with a call begins with
  const char* call;
  const char* wrong;
  std::vector<const char*> marks;
  const char* end = nullptr;  // the mark that ends a reply, too
};

// A call is a JSON object, alone or in a list.
std::vector<Family> FamiliesOfJsonCalls() {
  return {
      {"Qwen",
       "<tool_call>",
       "",
       R"(<tool_call>{"name":"light","arguments":{"room":"hall","level":3}})"
       "</tool_call>",
       R"(<tool_call>{"name":"light","arguments":{"room":"cellar"}})",
       {"<tool_call>", "</tool_call>"}},
      {"Nemotron",
       "<TOOLCALL>",
       "",
       "<TOOLCALL>"
       R"([{"name":"light","arguments":{"room":"hall","level":3}}])"
       "</TOOLCALL>",
       R"(<TOOLCALL>[{"name":"light","arguments":{"room":"cellar"}}])",
       {"<TOOLCALL>", "</TOOLCALL>"}},
      {"Command",
       "<|START_ACTION|>",
       "",
       R"(<|START_ACTION|>[{"tool_call_id":"0","tool_name":"light",)"
       R"("parameters":{"room":"hall","level":3}}])"
       "<|END_ACTION|>",
       R"(<|START_ACTION|>[{"tool_call_id":"0","tool_name":"light",)"
       R"("parameters":{"room":"cellar"}}])",
       {"<|START_ACTION|>", "<|END_ACTION|>"}},
      {"MistralList",
       "[TOOL_CALLS]",
       "",
       "[TOOL_CALLS]"
       R"([{"name":"light","arguments":{"room":"hall","level":3}}])",
       R"([TOOL_CALLS][{"name":"light","arguments":{"room":"cellar"}}])",
       {"[TOOL_CALLS]"}},
      {"Granite",
       "<|tool_call|>",
       "",
       "<|tool_call|>"
       R"([{"name":"light","arguments":{"room":"hall","level":3}}])",
       R"(<|tool_call|>[{"name":"light","arguments":{"room":"cellar"}}])",
       {"<|tool_call|>"}},
      {"Llama",
       "<|python_tag|>",
       "",
       R"({"name": "light", "parameters": {"room": "hall", "level": 3}})",
       R"({"name": "light", "parameters": {"room": "cellar"}})",
       {"<|python_tag|>"}}};
}

// A call's name stands before its arguments, which are a JSON object.
std::vector<Family> FamiliesOfJsonArguments() {
  return {
      {"Mistral",
       "[TOOL_CALLS] [ARGS]",
       "",
       R"([TOOL_CALLS]light[ARGS]{"room":"hall","level":3})",
       R"([TOOL_CALLS]light[ARGS]{"room":"cellar"})",
       {"[TOOL_CALLS]", "[ARGS]"}},
      {"MistralWithIds",
       "[TOOL_CALLS] [CALL_ID] [ARGS]",
       "",
       R"([TOOL_CALLS]light[CALL_ID]a1b2c3d4e[ARGS]{"room":"hall","level":3})",
       R"([TOOL_CALLS]light[CALL_ID]a1b2c3d4e[ARGS]{"room":"cellar"})",
       {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}},
      {"GptOss",
       "<|channel|>",
       "<|channel|>analysis<|message|>Dark.<|end|><|start|>assistant",
       "<|channel|>commentary to=functions.light <|constrain|>json<|message|>"
       R"({"room":"hall","level":3}<|call|>)",
       "<|channel|>commentary to=functions.light <|constrain|>json<|message|>"
       R"({"room":"cellar"}<|call|>)",
       {"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|constrain|>",
        "<|call|>"},
       "<|call|>"},
      {"DeepSeek",
       "<｜tool▁call▁begin｜>",
       "<｜tool▁calls▁begin｜>",
       R"(<｜tool▁call▁begin｜>light<｜tool▁sep｜>{"room":"hall","level":3})"
       "<｜tool▁call▁end｜>",
       R"(<｜tool▁call▁begin｜>light<｜tool▁sep｜>{"room":"cellar"})",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}},
      {"DeepSeekInBlocks",
       "<｜tool▁call▁begin｜> ```json",
       "<｜tool▁calls▁begin｜>",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>light\n```json\n"
       "{\"room\":\"hall\",\"level\":3}\n```<｜tool▁call▁end｜>",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>light\n```json\n"
       "{\"room\":\"cellar\"}\n```",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"}},
      {"Kimi",
       "<|tool_call_argument_begin|>",
       "<|tool_calls_section_begin|>",
       "<|tool_call_begin|>functions.light:0<|tool_call_argument_begin|>"
       R"({"room":"hall","level":3}<|tool_call_end|>)",
       "<|tool_call_begin|>functions.light:0<|tool_call_argument_begin|>"
       R"({"room":"cellar"}<|tool_call_end|>)",
       {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
        "<|tool_call_begin|>", "<|tool_call_end|>",
        "<|tool_call_argument_begin|>"}}};
}

// A call has a notation of its own.
std::vector<Family> FamiliesWithoutJson() {
  return {
      {"QwenCoder",
       "<tool_call> <function=",
       "",
       "<tool_call>\n<function=light>\n<parameter=room>\nhall\n</parameter>\n"
       "<parameter=level>\n3\n</parameter>\n</function>\n</tool_call>",
       "<tool_call>\n<function=light>\n<parameter=room>\ncellar\n</parameter>",
       {"<tool_call>", "</tool_call>"}},
      {"Glm",
       "<tool_call> <arg_key>",
       "",
       "<tool_call>light\n<arg_key>room</arg_key>\n<arg_value>hall"
       "</arg_value>\n<arg_key>level</arg_key>\n<arg_value>3</arg_value>\n"
       "</tool_call>",
       "<tool_call>light\n<arg_key>room</arg_key>\n<arg_value>cellar",
       {"<tool_call>", "</tool_call>"}},
      {"Gemma",
       "<|tool_call>",
       "",
       "<|tool_call>call:light{level:3,room:<|\"|>hall<|\"|>}<tool_call|>",
       "<|tool_call>call:light{room:<|\"|>cellar<|\"|>}<tool_call|>",
       {"<|tool_call>", "<tool_call|>", "<|\"|>"}},
      {"FunctionGemma",
       "<start_function_call>",
       "",
       "<start_function_call>call:light{level:3,room:<escape>hall<escape>}"
       "<end_function_call>",
       "<start_function_call>call:light{room:<escape>cellar<escape>}"
       "<end_function_call>",
       {"<start_function_call>", "<end_function_call>", "<escape>",
        "<start_function_response>"}},
      {"Lfm2",
       "<|tool_call_start|>",
       "",
       "<|tool_call_start|>[light(room=\"hall\", level=3)]<|tool_call_end|>",
       "<|tool_call_start|>[light(room=\"cellar\")]<|tool_call_end|>",
       {"<|tool_call_start|>", "<|tool_call_end|>"}}};
}

const std::vector<Family>& Families() {
  static const auto* const families = [] {
    auto* all = new std::vector<Family>(FamiliesOfJsonCalls());
    for (const auto& more :
         {FamiliesOfJsonArguments(), FamiliesWithoutJson()}) {
      all->insert(all->end(), more.begin(), more.end());
    }
    return all;
  }();
  return *families;
}

struct Case {
  const Family* family;
  TokenType type;  // type of its marks
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Family& family : Families()) {
    cases.push_back({&family, TokenType::kUserDefined});
    cases.push_back({&family, TokenType::kControl});
  }
  return cases;
}

// All bytes, the family's marks, a control token that is none of them, and the
// tokens that end a reply.
std::unique_ptr<worker::Tokenizer> MarkTokenizer(const Case& tested) {
  std::vector<worker::FixtureToken> more;
  for (const char* mark : tested.family->marks) {
    more.push_back({mark, tested.type});
  }
  more.push_back({"<other>", TokenType::kControl});
  more.push_back({"<eos>", TokenType::kControl});
  const std::vector<worker::FixtureToken> vocab = worker::ByteLevelVocab(more);
  const auto n_vocab = static_cast<uint32_t>(vocab.size());
  worker::GgufFixture fixture;
  worker::AddBpeVocab(fixture, vocab)
      .U32("tokenizer.ggml.eos_token_id", n_vocab - 1);
  if (tested.family->end != nullptr && tested.type == TokenType::kControl) {
    const auto end = std::find_if(vocab.begin(), vocab.end(),
                                  [&](const worker::FixtureToken& token) {
                                    return token.text == tested.family->end;
                                  });
    fixture.U32("tokenizer.ggml.eot_token_id",
                static_cast<uint32_t>(end - vocab.begin()));
  }
  auto tokenizer = fixture.Load();
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

class CallConstraintTest : public ::testing::TestWithParam<Case> {
 protected:
  const Family& family() const { return *GetParam().family; }

  // The mask of a reply to `chat`.
  worker::TokenMask Mask(const v1::ChatPrompt& chat) {
    worker::GenerateOptions options;
    options.shown_tokens = worker::TokensToShow(reading_->format, *tokenizer_);
    const auto notes =
        HoldCalls(chat, reading_, {*tokenizer_, cache_, NeverStop}, options);
    EXPECT_TRUE(notes.ok()) << notes.status();
    EXPECT_TRUE(notes->empty()) << notes->front();
    EXPECT_NE(options.constraint, nullptr);
    return worker::TokenMask(options.constraint, index_);
  }

  std::vector<int32_t> Tokens(absl::string_view text) const {
    return *tokenizer_->Encode(text, worker::ParseSpecial::kYes);
  }

  // Says `text` token by token. Returns what of it came before a token that the
  // mask refuses.
  std::string Say(worker::TokenMask& mask, absl::string_view text) const {
    std::vector<int32_t> said;
    for (const int32_t id : Tokens(text)) {
      mask.BeginStep();
      if (!mask.Allows(id)) break;
      EXPECT_TRUE(mask.Accept(id).ok());
      said.push_back(id);
    }
    return tokenizer_->Decode(said, worker::RenderSpecial::kYes);
  }

  // True if the reply may end, or has ended with the family's mark.
  bool MayEnd(worker::TokenMask& mask, absl::string_view said) const {
    const auto id =
        tokenizer_->Encode(said, worker::ParseSpecial::kYes)->back();
    mask.BeginStep();
    return tokenizer_->IsEnd(id) || mask.Allows(tokenizer_->vocab_size() - 1);
  }

  const std::unique_ptr<worker::Tokenizer> tokenizer_ =
      MarkTokenizer(GetParam());
  const worker::TokenIndex index_{*tokenizer_};
  worker::ConstraintCache cache_;
  std::optional<worker::ReplyReading> reading_ = worker::ReplyReading{
      .format = worker::FindReplyFormat(family().sign), .tools = Tools()};
};

v1::ChatPrompt Required() {
  v1::ChatPrompt chat;
  chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  return chat;
}

TEST_P(CallConstraintTest, ACallIsAsItsToolSaysAndNotOtherwise) {
  for (const v1::ChatPrompt& chat : {v1::ChatPrompt(), Required()}) {
    SCOPED_TRACE(chat.tool_choice());
    const std::string right = absl::StrCat(family().first, family().call);
    worker::TokenMask mask = Mask(chat);
    EXPECT_EQ(Say(mask, right), right);
    EXPECT_TRUE(MayEnd(mask, right));
    worker::TokenMask other = Mask(chat);
    const std::string wrong = absl::StrCat(family().first, family().wrong);
    EXPECT_EQ(Say(other, wrong), wrong.substr(0, wrong.find("cellar")));
  }
}

TEST_P(CallConstraintTest, TextBeforeACallIsFreeUnlessACallIsRequired) {
  constexpr char kText[] = "Let me see.\n";
  const std::string reply = absl::StrCat(kText, family().first, family().call);
  worker::TokenMask free = Mask({});
  EXPECT_EQ(Say(free, reply), reply);
  worker::TokenMask said = Mask({});
  EXPECT_EQ(Say(said, kText), kText);
  EXPECT_TRUE(MayEnd(said, kText)) << "no call is needed";
  worker::TokenMask held = Mask(Required());
  EXPECT_EQ(Say(held, reply), "");
  worker::TokenMask empty = Mask(Required());
  empty.BeginStep();
  EXPECT_FALSE(empty.Allows(tokenizer_->vocab_size() - 1));
}

TEST_P(CallConstraintTest, OtherControlTokensStayForbidden) {
  worker::TokenMask mask = Mask({});
  mask.BeginStep();
  EXPECT_FALSE(mask.Allows(*tokenizer_->Find("<other>")));
}

TEST_P(CallConstraintTest, ATokenThatEndsAReplyComesOnlyWhereItMayEnd) {
  const auto wait = tokenizer_->Find("<start_function_response>");
  if (!wait) return;
  ASSERT_TRUE(tokenizer_->IsEnd(*wait));
  worker::TokenMask mask = Mask(Required());
  const std::string call = family().call;
  const size_t n_inside = call.find("hall") + 2;
  EXPECT_EQ(Say(mask, call.substr(0, n_inside)), call.substr(0, n_inside));
  mask.BeginStep();
  EXPECT_FALSE(mask.Allows(*wait));
  EXPECT_EQ(Say(mask, call.substr(n_inside)), call.substr(n_inside));
  mask.BeginStep();
  EXPECT_TRUE(mask.Allows(*wait));
}

TEST_P(CallConstraintTest, OnlyTheRequiredToolIsCalled) {
  v1::ChatPrompt chat = Required();
  chat.set_required_tool("say");
  worker::TokenMask mask = Mask(chat);
  const std::string reply = absl::StrCat(family().first, family().call);
  EXPECT_LT(Say(mask, reply).size(), reply.find("light") + 1);
  chat.set_required_tool("light");
  worker::TokenMask right = Mask(chat);
  EXPECT_EQ(Say(right, reply), reply);
}

// Draws among what the mask allows, and ends where it may.
TEST_P(CallConstraintTest, WhatIsAllowedIsReadAsCallsThatFitTheirTools) {
  std::mt19937 random(5);
  const int n_replies = testing::kIsSanitized ? 10 : 100;
  constexpr size_t kMaxTokens = 4'000;
  size_t n_calls = 0;
  for (int i = 0; i < n_replies; ++i) {
    v1::ChatPrompt chat = Required();
    if (i % 2 == 0) chat.set_parallel_tool_calls(false);
    worker::TokenMask mask = Mask(chat);
    const std::string first =
        absl::StrCat(family().first, reading_->format.call.open);
    std::vector<int32_t> said = Tokens(first);
    ASSERT_EQ(Say(mask, first), first);
    while (said.size() < kMaxTokens) {
      mask.BeginStep();
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
        if (mask.Allows(id)) allowed.push_back(id);
      }
      ASSERT_FALSE(allowed.empty());
      if (tokenizer_->IsEnd(allowed.back())) {
        said.push_back(allowed.back());
        break;
      }
      said.push_back(allowed[random() % allowed.size()]);
      ASSERT_TRUE(mask.Accept(said.back()).ok());
    }
    const std::string reply =
        tokenizer_->Decode(said, worker::RenderSpecial::kYes);
    ASSERT_LT(said.size(), kMaxTokens) << reply;
    worker::ReplySplitter splitter(*reading_);
    worker::ReplyDelta delta;
    splitter.Push(reply.substr(0, reply.rfind("<eos>")), delta);
    splitter.Finish(delta);
    ASSERT_FALSE(delta.calls.empty()) << reply;
    n_calls += delta.calls.size();
    for (const worker::ReadToolCall& one : delta.calls) {
      ASSERT_TRUE(one.call.ok()) << one.call.status() << "\n" << reply;
      const bool is_light = one.call->name == "light";
      ASSERT_TRUE(is_light || one.call->name == "say") << reply;
      const auto check =
          worker::SchemaCheck::Make(is_light ? kLight : kSay, {});
      ASSERT_TRUE(check.ok()) << check.status();
      EXPECT_TRUE((*check)->Check(one.call->arguments).is_accepted) << reply;
    }
  }
  EXPECT_GE(n_calls, static_cast<size_t>(n_replies));
}

INSTANTIATE_TEST_SUITE_P(Families, CallConstraintTest,
                         ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return absl::StrCat(
                               info.param.family->name,
                               info.param.type == TokenType::kControl
                                   ? "Control"
                                   : "Text");
                         });

// Strings without quotes or escapes: they hold what ends nothing.
struct RawCase {
  const char* family;
  const char* before;
  const char* after;
  std::vector<const char*> never;
};

class RawStringTest : public ::testing::TestWithParam<TokenType> {};

TEST_P(RawStringTest, AStringEndsWithItsMarkOnly) {
  const RawCase raw_cases[] = {
      {"QwenCoder",
       "<tool_call>\n<function=write>\n<parameter=text>\n",
       "\n</parameter>\n</function>\n</tool_call>",
       {"</function>", "</tool_call>"}},
      {"Glm",
       "<tool_call>write\n<arg_key>text</arg_key>\n<arg_value>",
       "</arg_value>\n</tool_call>",
       {"</tool_call>"}},
      {"Gemma",
       "<|tool_call>call:write{text:<|\"|>",
       "<|\"|>}<tool_call|>",
       {"<tool_call|>", "<|tool_call>"}},
      {"FunctionGemma",
       "<start_function_call>call:write{text:<escape>",
       "<escape>}<end_function_call>",
       {"<end_function_call>", "<start_function_call>",
        "<start_function_response>"}}};
  constexpr char kText[] =
      "<p class=\"a\">1 \\ 2</p>\n\n</param </parameter\n</ <|\" <escape <end_ "
      "é";
  for (const RawCase& one : raw_cases) {
    SCOPED_TRACE(one.family);
    const auto family = std::find_if(
        Families().begin(), Families().end(), [&](const Family& f) {
          return f.name == absl::string_view(one.family);
        });
    ASSERT_NE(family, Families().end());
    const auto tokenizer = MarkTokenizer({&*family, GetParam()});
    const std::optional<worker::ReplyReading> reading =
        worker::ReplyReading{.format = worker::FindReplyFormat(family->sign),
                             .tools = {{.name = "write",
                                        .description = "",
                                        .parameters = R"({"properties": {
                       "text": {"type": "string"}}, "required": ["text"]})"}}};
    worker::ConstraintCache cache;
    worker::GenerateOptions options;
    options.shown_tokens = worker::TokensToShow(reading->format, *tokenizer);
    ASSERT_TRUE(
        HoldCalls(Required(), reading, {*tokenizer, cache, NeverStop}, options)
            .ok());
    ASSERT_NE(options.constraint, nullptr);
    const worker::TokenIndex index(*tokenizer);
    // Says a call with this text, byte by byte. Returns whether it may.
    const auto may_say = [&](const std::string& text) {
      worker::TokenMask mask(options.constraint, index);
      std::vector<int32_t> ids =
          *tokenizer->Encode(one.before, worker::ParseSpecial::kYes);
      for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
      const auto after =
          *tokenizer->Encode(one.after, worker::ParseSpecial::kYes);
      ids.insert(ids.end(), after.begin(), after.end());
      return std::all_of(ids.begin(), ids.end(), [&](int32_t id) {
        mask.BeginStep();
        return mask.Allows(id) && mask.Accept(id).ok();
      });
    };
    EXPECT_TRUE(may_say(kText));
    worker::ReplySplitter splitter(*reading);
    worker::ReplyDelta delta;
    splitter.Push(absl::StrCat(one.before, kText, one.after), delta);
    splitter.Finish(delta);
    ASSERT_EQ(delta.calls.size(), 1u);
    ASSERT_TRUE(delta.calls[0].call.ok()) << delta.calls[0].call.status();
    EXPECT_EQ(delta.calls[0].call->arguments,
              (nlohmann::json{{"text", kText}}.dump()));
    for (const char* word : one.never) {
      EXPECT_FALSE(may_say(absl::StrCat("a ", word, " b"))) << word;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Marks, RawStringTest,
                         ::testing::Values(TokenType::kUserDefined,
                                           TokenType::kControl));

TEST(SortedArgumentsTest, GemmasModelsWriteThemInTheOrderOfTheirTemplates) {
  const auto family =
      std::find_if(Families().begin(), Families().end(), [](const Family& f) {
        return f.name == absl::string_view("FunctionGemma");
      });
  ASSERT_NE(family, Families().end());
  const auto tokenizer = MarkTokenizer({&*family, TokenType::kUserDefined});
  const std::optional<worker::ReplyReading> reading = worker::ReplyReading{
      .format = worker::FindReplyFormat(family->sign),
      .tools = {{.name = "f",
                 .description = "",
                 .parameters = R"({"type": "object", "properties": {
                     "c": {"type": "array", "items": {
                         "type": "object", "properties": {
                             "z": {"const": 1}, "Y": {"const": 2}},
                         "required": ["z", "Y"]}},
                     "B": {"const": 3}, "a": {"const": 4}},
                     "required": ["c", "B", "a"]})"}}};
  worker::ConstraintCache cache;
  worker::GenerateOptions options;
  ASSERT_TRUE(
      HoldCalls(Required(), reading, {*tokenizer, cache, NeverStop}, options)
          .ok());
  const worker::TokenIndex index(*tokenizer);
  const auto may_say = [&](absl::string_view arguments) {
    worker::TokenMask mask(options.constraint, index);
    const std::string call = absl::StrCat("<start_function_call>call:f",
                                          arguments, "<end_function_call>");
    const auto ids = *tokenizer->Encode(call, worker::ParseSpecial::kYes);
    return std::all_of(ids.begin(), ids.end(), [&](int32_t id) {
      mask.BeginStep();
      return mask.Allows(id) && mask.Accept(id).ok();
    });
  };
  EXPECT_TRUE(may_say("{a:4,B:3,c:[{Y:2,z:1}]}"));
  EXPECT_FALSE(may_say("{a:4,B:3,c:[{z:1,Y:2}]}"));
  EXPECT_FALSE(may_say("{c:[{Y:2,z:1}],B:3,a:4}"));
}

TEST(CallsThatCannotBeHeldTest, ANameThatIsAPartOfTheSyntaxFreesThem) {
  const auto family = std::find_if(
      Families().begin(), Families().end(),
      [](const Family& f) { return f.name == absl::string_view("QwenCoder"); });
  ASSERT_NE(family, Families().end());
  const auto tokenizer = MarkTokenizer({&*family, TokenType::kUserDefined});
  const std::optional<worker::ReplyReading> reading = worker::ReplyReading{
      .format = worker::FindReplyFormat(family->sign),
      .tools = {{.name = "write",
                 .description = "",
                 .parameters = R"({"properties": {"a>b": {}}})"}}};
  worker::ConstraintCache cache;
  worker::GenerateOptions options;
  const auto notes =
      HoldCalls({}, reading, {*tokenizer, cache, NeverStop}, options);
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes,
              ::testing::ElementsAre(HasSubstr("name cannot be 'a>b'")));
  EXPECT_EQ(options.constraint, nullptr);
  const auto required =
      HoldCalls(Required(), reading, {*tokenizer, cache, NeverStop}, options);
  EXPECT_THAT(std::string(required.status().message()),
              HasSubstr("name cannot be 'a>b'"));
}

TEST(CallsThatCannotBeHeldTest, ARequiredOneIsRefusedWithTheReason) {
  const Case tested = {Families().data(), TokenType::kUserDefined};
  const auto tokenizer = MarkTokenizer(tested);
  worker::ConstraintCache cache;
  const auto why = [&](const std::optional<worker::ReplyReading>& reading) {
    worker::GenerateOptions options;
    const auto held =
        HoldCalls(Required(), reading, {*tokenizer, cache, NeverStop}, options);
    EXPECT_EQ(options.constraint, nullptr);
    return std::string(held.status().message());
  };
  EXPECT_THAT(why(std::nullopt), HasSubstr("the reply is not split"));
  EXPECT_THAT(why(worker::ReplyReading{}), HasSubstr("there are no tools"));
  EXPECT_THAT(
      why(worker::ReplyReading{.format = worker::FindReplyFormat("<think>"),
                               .tools = Tools()}),
      HasSubstr("how the model writes calls is not known"));
}

}  // namespace
}  // namespace plimsoll::services
