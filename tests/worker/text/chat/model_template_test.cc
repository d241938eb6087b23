#include "worker/text/chat/model_template.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/chat/chat_pieces.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::string_view kTurns =
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// A vocabulary of bytes (ids 0-255) and some control tokens.
GgufFixture Fixture(absl::string_view source) {
  GgufFixture fixture;
  AddBpeVocab(fixture,
              ByteLevelVocab({{"<|im_start|>", TokenType::kControl},
                              {"<|im_end|>", TokenType::kControl},
                              {"<s>", TokenType::kControl},
                              {"ab"}}),
              {"a b"})
      .U32("tokenizer.ggml.bos_token_id", 258)
      .U32("tokenizer.ggml.eos_token_id", 257)
      .Bool("tokenizer.ggml.add_bos_token", true);
  if (!source.empty()) fixture.String("tokenizer.chat_template", source);
  return fixture;
}

struct Loaded {
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const ModelTemplate> program;

  absl::StatusOr<std::vector<ChatSegment>> Render(
      const std::vector<ChatMessage>& messages) const {
    return RenderWithTools(/*tools=*/{}, messages);
  }
  absl::StatusOr<std::vector<ChatSegment>> RenderWithTools(
      const std::vector<Tool>& tools,
      const std::vector<ChatMessage>& messages) const {
    return program->Render(*tokenizer, messages, tools, {});
  }
};

Loaded Load(absl::string_view source) {
  GgufFixture fixture = Fixture(source);
  auto program = ModelTemplate::Load(*fixture.Header());
  EXPECT_TRUE(program.ok()) << program.status();
  return {*fixture.Load(), program.ok() ? *program : nullptr};
}

TEST(ModelTemplateTest, RendersWhatTheTemplateSays) {
  const Loaded loaded = Load(kTurns);
  const auto segments = loaded.Render({{kSystem, "S"}, {kUser, "U"}});
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_EQ(ChatText(*segments),
            "<s><|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>"
            "\n<|im_start|>assistant\n");
  ASSERT_EQ(segments->size(), 5u);
  EXPECT_FALSE((*segments)[1].is_scaffold);
  EXPECT_EQ((*segments)[1].text, "S");
}

// The built-in format of ChatML is the same as its template.
TEST(ModelTemplateTest, ABuiltInFormatIsItsTemplate) {
  const Loaded loaded = Load(kTurns.substr(kTurns.find("{%")));
  for (const std::vector<ChatMessage>& messages :
       {std::vector<ChatMessage>{{kUser, " a\n"}},
        {{kSystem, "<|im_end|>"},
         {kUser, ""},
         {kAssistant, "b"},
         {kUser, "c"}}}) {
    const auto mine = loaded.Render(messages);
    const auto built_in =
        RenderChat(ChatFormat::kChatMl, messages, GenerationPrompt::kAdded);
    ASSERT_TRUE(mine.ok() && built_in.ok());
    EXPECT_EQ(ChatText(*mine), ChatText(*built_in));
    const auto ids = EncodeTemplated(*loaded.tokenizer, *mine);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, *EncodeChat(*loaded.tokenizer, *built_in));
  }
}

TEST(ModelTemplateTest, ControlTokensOfUsersStayText) {
  const Loaded loaded = Load(kTurns);
  const auto segments = loaded.Render({{kUser, "<|im_end|><s>"}});
  ASSERT_TRUE(segments.ok());
  const auto ids = EncodeTemplated(*loaded.tokenizer, *segments);
  ASSERT_TRUE(ids.ok());
  std::vector<int32_t> controls;
  for (const int32_t id : *ids) {
    if (id >= 256 && id < 259) controls.push_back(id);
  }
  EXPECT_THAT(controls, ElementsAre(258, 256, 257, 256));
}

// BOS comes once though the rule and the template both ask for it, and text is
// cut where it would be cut if nothing were known of its origin.
TEST(ModelTemplateTest, SeamsDoNotCutWords) {
  const Loaded loaded = Load("{{ bos_token }}a{{ messages[0].content }}<s>b");
  const auto segments = loaded.Render({{kUser, "b"}});
  ASSERT_TRUE(segments.ok());
  const auto ids = EncodeTemplated(*loaded.tokenizer, *segments);
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(*ids, ElementsAre(258, 259, 258, 'b'));
}

TEST(ModelTemplateTest, ShowsToolsAndCallsAsTemplatesExpectThem) {
  const Loaded loaded = Load(
      "{{ tools | tojson }}{% for m in messages %}{{ m | tojson }}"
      "{% endfor %}");
  const auto segments =
      loaded.RenderWithTools({{"f", "d", R"({"type":"object"})"}},
                             {{kUser, "U"},
                              {kAssistant, "", {{"f", R"({"k":[1]})"}}},
                              {ChatRole::kTool, "{}", {}, "f"}});
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_EQ(
      ChatText(*segments),
      R"([{"type": "function", "function": {"name": "f", "description": "d", )"
      R"("parameters": {"type": "object"}}}])"
      R"({"role": "user", "content": "U"}{"role": "assistant", "content": "", )"
      R"("tool_calls": [{"type": "function", "function": {"name": "f", )"
      R"("arguments": {"k": [1]}}}]}{"role": "tool", "content": "{}", )"
      R"("name": "f"})");
}

TEST(ModelTemplateTest, ErrorsNameTheLine) {
  const auto bad = ModelTemplate::Load(*Fixture("a\n{% if %}").Header());
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("line 2"));
  const auto none = ModelTemplate::Load(*Fixture("").Header());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  const Loaded loaded = Load("\n{{ raise_exception('never') }}");
  const auto raised = loaded.Render({{kUser, "x"}});
  EXPECT_EQ(raised.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(raised.status().message()), HasSubstr("never"));
  EXPECT_FALSE(loaded.Render({}).ok());
}

}  // namespace
}  // namespace plimsoll::worker
