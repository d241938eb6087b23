#include "worker/text/chat/chat_template.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/model/architectures.h"
#include "tests/worker/text/chat/chat_pieces.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string TextWith(GenerationPrompt prompt, ChatFormat format,
                     const std::vector<ChatMessage>& messages) {
  const auto segments = RenderChat(format, messages, prompt);
  EXPECT_TRUE(segments.ok()) << segments.status();
  return segments.ok() ? ChatText(*segments) : "";
}

std::string Text(ChatFormat format, const std::vector<ChatMessage>& messages) {
  return TextWith(GenerationPrompt::kAdded, format, messages);
}

TEST(RenderChatTest, SmolLm2HasADefaultSystemMessage) {
  EXPECT_EQ(Text(ChatFormat::kSmolLm2, {{kUser, " Hi\n"}}),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
            "trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Text(ChatFormat::kSmolLm2, {{kSystem, "S"}, {kUser, "U"}}),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(RenderChatTest, ChatMlAddsNothing) {
  EXPECT_EQ(
      TextWith(GenerationPrompt::kLeftOut, ChatFormat::kChatMl,
               {{kUser, "U"}, {kAssistant, "A"}}),
      "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n");
}

TEST(RenderChatTest, Gemma3PutsTheSystemTextIntoTheFirstUserTurn) {
  EXPECT_EQ(Text(ChatFormat::kGemma3, {{kSystem, " S "},
                                       {kUser, " U\n"},
                                       {kAssistant, "\tA "},
                                       {kUser, "V"}}),
            "<start_of_turn>user\n S \n\nU<end_of_turn>\n"
            "<start_of_turn>model\nA<end_of_turn>\n"
            "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n");
}

TEST(RenderChatTest, Gemma3TrimsWhatPythonCallsSpace) {
  const std::string spaces = "\x1C\xC2\x85\xC2\xA0\xE3\x80\x80\xE2\x80\xA8 \n";
  EXPECT_EQ(Text(ChatFormat::kGemma3, {{kUser, spaces + "a b" + spaces}}),
            "<start_of_turn>user\na b<end_of_turn>\n<start_of_turn>model\n");
  for (const std::string kept :
       {"\xE2\x80\x8B", "\xE1\xA0\x8E", "\xFF", "\x80\x80\x80\x80", "\xC3\xA9",
        "\xF0\x9F\x98\x80"}) {
    EXPECT_EQ(Text(ChatFormat::kGemma3, {{kUser, " " + kept + " "}}),
              "<start_of_turn>user\n" + kept +
                  "<end_of_turn>\n<start_of_turn>model\n");
  }
  EXPECT_EQ(Text(ChatFormat::kGemma3, {{kUser, spaces}}),
            "<start_of_turn>user\n<end_of_turn>\n<start_of_turn>model\n");
}

TEST(RenderChatTest, Gemma3RefusesRolesOutOfTurn) {
  const std::vector<std::vector<ChatMessage>> conversations = {
      {{kSystem, "S"}},
      {{kAssistant, "A"}},
      {{kUser, "U"}, {kUser, "U"}},
      {{kSystem, "S"}, {kAssistant, "A"}},
      {{kUser, "U"}, {kSystem, "S"}},
      {{kUser, "U"}, {kAssistant, "A"}, {kAssistant, "A"}},
  };
  for (const auto& messages : conversations) {
    const auto segments =
        RenderChat(ChatFormat::kGemma3, messages, GenerationPrompt::kAdded);
    EXPECT_EQ(segments.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(segments.status().message()), HasSubstr("gemma3"));
  }
}

TEST(RenderChatTest, OnlyWhatPeopleWroteIsContent) {
  for (const ChatFormat format :
       {ChatFormat::kSmolLm2, ChatFormat::kChatMl, ChatFormat::kGemma3}) {
    const auto segments = RenderChat(
        format, {{kSystem, "SYS"}, {kUser, "USER"}, {kAssistant, "MODEL"}},
        GenerationPrompt::kAdded);
    ASSERT_TRUE(segments.ok()) << segments.status();
    std::string content;
    bool was_scaffold = false;
    for (const ChatSegment& segment : *segments) {
      EXPECT_FALSE(segment.text.empty());
      EXPECT_NE(segment.is_scaffold, was_scaffold);
      was_scaffold = segment.is_scaffold;
      if (!segment.is_scaffold) content += segment.text + ".";
    }
    EXPECT_EQ(content, "SYS.USER.MODEL.");
  }
}

TEST(RenderChatTest, ConversationsHaveLimits) {
  const auto render = [](size_t n_messages, size_t bytes) {
    std::vector<ChatMessage> messages(n_messages, {kUser, ""});
    if (!messages.empty()) messages[0].content.assign(bytes, 'x');
    return RenderChat(ChatFormat::kChatMl, messages, GenerationPrompt::kAdded)
        .status()
        .code();
  };
  const auto n = static_cast<size_t>(kMaxChatMessages);
  const auto bytes = static_cast<size_t>(kMaxChatBytes);
  EXPECT_EQ(render(n, bytes), absl::StatusCode::kOk);
  EXPECT_EQ(render(0, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(render(n + 1, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(render(1, bytes + 1), absl::StatusCode::kInvalidArgument);
}

TEST(EncodeChatTest, ControlTextInContentStaysText) {
  GgufFixture fixture;
  std::vector<FixtureToken> tokens =
      ByteLevelVocab({{"<|im_start|>", TokenType::kControl},
                      {"<|im_end|>", TokenType::kControl}});
  const auto tokenizer = AddBpeVocab(fixture, tokens)
                             .U32("tokenizer.ggml.bos_token_id", 256)
                             .Bool("tokenizer.ggml.add_bos_token", true)
                             .Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto segments = RenderChat(ChatFormat::kChatMl, {{kUser, "<|im_end|>"}},
                                   GenerationPrompt::kLeftOut);
  ASSERT_TRUE(segments.ok());
  const auto ids = EncodeChat(**tokenizer, *segments);
  ASSERT_TRUE(ids.ok()) << ids.status();
  std::vector<int32_t> expected = {256, 256};  // BOS once, then the scaffold
  for (const char c : std::string("user\n<|im_end|>")) expected.push_back(c);
  expected.push_back(257);
  expected.push_back('\n');
  EXPECT_EQ(*ids, expected);
}

absl::StatusOr<ChatFormatChoice> Choose(absl::string_view architecture,
                                        absl::string_view chat_template) {
  GgufFixture fixture;
  fixture.String("general.architecture", architecture);
  if (!chat_template.empty()) {
    fixture.String("tokenizer.chat_template", chat_template);
  }
  const auto header = fixture.Header();
  EXPECT_TRUE(header.ok()) << header.status();
  return ChooseChatFormat(*header);
}

constexpr absl::string_view kPlain =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST(ChooseChatFormatTest, RecognisesTemplates) {
  const auto plain = Choose("llama", kPlain);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->format, ChatFormat::kChatMl);
  const auto smollm2 = Choose(
      "llama",
      "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
      "trained by Hugging Face<|im_end|>\n' }}");
  ASSERT_TRUE(smollm2.ok()) << smollm2.status();
  EXPECT_EQ(smollm2->format, ChatFormat::kSmolLm2);
  const auto gemma = Choose("gemma3", "{{ '<start_of_turn>' + role }}");
  ASSERT_TRUE(gemma.ok()) << gemma.status();
  EXPECT_EQ(gemma->format, ChatFormat::kGemma3);
  EXPECT_EQ(gemma->reason, "the file's template");
}

TEST(ChooseChatFormatTest, PlainChatMlMayBeWrittenInSeveralWays) {
  for (const absl::string_view text :
       {"{%- for message in messages -%}\n  {{- \"<|im_start|>\" + "
        "message[\"role\"] + \"\\n\" + message[\"content\"] + "
        "\"<|im_end|>\\n\" -}}\n{%- endfor -%}\n"
        "{%- if add_generation_prompt -%}\n"
        "  {{- \"<|im_start|>assistant\\n\" -}}\n{%- endif -%}\n",
        "{% if not add_generation_prompt is defined %}"
        "{% set add_generation_prompt = false %}{% endif %}"
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + "
        "'\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% endif %}"}) {
    const auto choice = Choose("llama", text);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->format, ChatFormat::kChatMl);
  }
}

TEST(ChooseChatFormatTest, RefusesOtherTemplatesByName) {
  const std::pair<absl::string_view, std::string> cases[] = {
      {"{{ '<|im_start|>system\nYou are Qwen.<|im_end|>\n' }}", "<|im_start|>"},
      {"{{ '<|start_header_id|>' }}", "<|start_header_id|>"},
      {"{{ '<|turn>user' }}", "<|turn>"},
      {"{{ '[INST]' }}", "[INST]"},
      {"{{ messages[0] }}", "{{ messages[0] }}"},
  };
  for (const auto& [text, seen] : cases) {
    const auto choice = Choose("llama", text);
    EXPECT_EQ(choice.status().code(), absl::StatusCode::kUnimplemented) << text;
    EXPECT_THAT(std::string(choice.status().message()),
                AllOf(HasSubstr(seen), HasSubstr("--chat-format")));
  }
}

TEST(ChooseChatFormatTest, WithoutATemplateTheArchitectureDecides) {
  const auto gemma = Choose("gemma3", "");
  ASSERT_TRUE(gemma.ok()) << gemma.status();
  EXPECT_EQ(gemma->format, ChatFormat::kGemma3);
  EXPECT_THAT(gemma->reason, HasSubstr("no template"));
  const auto llama = Choose("llama", "");
  EXPECT_EQ(llama.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(llama.status().message()),
              AllOf(HasSubstr("llama"), HasSubstr("--chat-format")));
}

TEST(ChooseChatFormatTest, EveryArchitecturesFormatIsOneOfOurs) {
  for (const planner::Architecture* architecture : planner::Architectures()) {
    if (architecture->chat_format.empty()) continue;
    const auto choice = Choose(std::string(architecture->name), "");
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(ChatFormatName(choice->format), architecture->chat_format);
  }
}

TEST(ChatFormatNameTest, NamesAreParsedBack) {
  for (const ChatFormat format :
       {ChatFormat::kSmolLm2, ChatFormat::kChatMl, ChatFormat::kGemma3,
        ChatFormat::kFunctionGemma}) {
    const auto parsed = ParseChatFormat(ChatFormatName(format));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, format);
  }
  const auto unknown = ParseChatFormat("llama3");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()),
              AllOf(HasSubstr("llama3"), HasSubstr("smollm2")));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOfBytes() {
  GgufFixture fixture;
  return AddBpeVocab(fixture,
                     ByteLevelVocab({{"<|im_start|>", TokenType::kControl},
                                     {"<|im_end|>", TokenType::kControl},
                                     {"<start_of_turn>", TokenType::kControl},
                                     {"<end_of_turn>", TokenType::kControl}}))
      .U32("tokenizer.ggml.bos_token_id", 256)
      .Bool("tokenizer.ggml.add_bos_token", true)
      .Load();
}

// What a session says turn by turn is what the whole conversation says.
TEST(EncodeFrameTest, PiecesAreTheWholeConversation) {
  const auto tokenizer = TokenizerOfBytes();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string system = " be kind\n";
  for (const ChatFormat format :
       {ChatFormat::kSmolLm2, ChatFormat::kChatMl, ChatFormat::kGemma3}) {
    SCOPED_TRACE(ChatFormatName(format));
    ExpectPiecesAreTheWhole(**tokenizer, format, nullptr);
    ExpectPiecesAreTheWhole(**tokenizer, format, &system);
  }
}

// Texts with more bytes than some tokens can stand for are refused before the
// stop check is asked, and others ask it.
TEST(EncodeFrameTest, BytesAreComparedBeforeAnythingIsTokenised) {
  const auto tokenizer = TokenizerOfBytes();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  int n_asked = 0;
  const auto stop = [&n_asked] {
    ++n_asked;
    return absl::CancelledError("enough");
  };
  const int64_t span = (*tokenizer)->longest_span();
  const std::string text(static_cast<size_t>(1'000 * span) + 1, 'x');
  const auto frame = [&](int64_t max_tokens) {
    return EncodeFrame(**tokenizer, ChatFormat::kChatMl, &text,
                       {.max_tokens = max_tokens, .stop = stop})
        .status()
        .code();
  };
  const auto content = [&](int64_t max_tokens) {
    return EncodeContent(**tokenizer, ChatFormat::kChatMl, text,
                         {.max_tokens = max_tokens, .stop = stop})
        .status()
        .code();
  };
  EXPECT_EQ(frame(1'000), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(content(1'000), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(n_asked, 0);
  EXPECT_EQ(frame(2'000), absl::StatusCode::kCancelled);
  EXPECT_EQ(content(1'001), absl::StatusCode::kCancelled);
  EXPECT_EQ(n_asked, 2);
}

}  // namespace
}  // namespace plimsoll::worker
