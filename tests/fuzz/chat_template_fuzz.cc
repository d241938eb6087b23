// Any template is recognised or refused; any conversation is rendered or
// refused, and its control tokens are the scaffold's.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "worker/text/chat/chat_template.h"

namespace plimsoll::worker {
namespace {

std::unique_ptr<Tokenizer> MakeTokenizer() {
  GgufFixture fixture;
  return *AddVocab(fixture, ByteLevelVocab(
                                {{"<|im_start|>", TokenType::kControl},
                                 {"<|im_end|>", TokenType::kControl},
                                 {"<start_of_turn>", TokenType::kControl},
                                 {"<end_of_turn>", TokenType::kControl},
                                 {"<start_function_call>", TokenType::kControl},
                                 {"<escape>", TokenType::kUserDefined}}))
              .String("tokenizer.ggml.model", "gpt2")
              .String("tokenizer.ggml.pre", "gpt-2")
              .Strings("tokenizer.ggml.merges", {})
              .Load();
}

// Ids of the control tokens in `ids`, in order.
std::vector<int32_t> Controls(const Tokenizer& tokenizer,
                              const std::vector<int32_t>& ids) {
  std::vector<int32_t> controls;
  for (const int32_t id : ids) {
    const TokenType type = tokenizer.Type(id);
    if (type == TokenType::kControl || type == TokenType::kUserDefined) {
      controls.push_back(id);
    }
  }
  return controls;
}

void CheckChat(const Tokenizer& tokenizer, ChatFormat format,
               const std::vector<ChatMessage>& messages, bool add_prompt,
               const std::vector<Tool>& tools) {
  auto segments =
      RenderChat(format, messages, GenerationPromptIf(add_prompt), tools);
  if (!segments.ok()) return;
  const auto ids = EncodeChat(tokenizer, *segments);
  PLIMSOLL_CHECK(ids.ok(), "a rendered conversation has ids");
  for (ChatSegment& segment : *segments) {
    if (!segment.is_scaffold) segment.text = "x";
  }
  const auto scaffold = EncodeChat(tokenizer, *segments);
  PLIMSOLL_CHECK(scaffold.ok(), "a rendered conversation has ids");
  PLIMSOLL_CHECK(Controls(tokenizer, *ids) == Controls(tokenizer, *scaffold),
                 "control tokens are the scaffold's");
}

}  // namespace
}  // namespace plimsoll::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace worker = plimsoll::worker;
  using worker::ChatFormat;
  using worker::ChatRole;
  static const auto& tokenizer = *worker::MakeTokenizer().release();
  FuzzedDataProvider input(data, size);
  if (input.ConsumeBool()) {
    worker::GgufFixture fixture;
    fixture.String("general.architecture", "llama");
    fixture.String("tokenizer.chat_template",
                   input.ConsumeRemainingBytesAsString());
    const auto header = fixture.Header();
    if (header.ok()) (void)worker::ChooseChatFormat(*header);
    return 0;
  }
  const ChatFormat format =
      input.PickValueInArray({ChatFormat::kSmolLm2, ChatFormat::kChatMl,
                              ChatFormat::kGemma3, ChatFormat::kFunctionGemma});
  const bool has_tools = format == ChatFormat::kFunctionGemma;
  const bool add_prompt = input.ConsumeBool();
  std::vector<worker::ChatMessage> messages;
  std::vector<worker::Tool> tools;
  while (input.remaining_bytes() > 0) {
    const ChatRole role =
        input.PickValueInArray({ChatRole::kSystem, ChatRole::kUser,
                                ChatRole::kAssistant, ChatRole::kTool});
    const std::string text = input.ConsumeRandomLengthString();
    const bool is_json = has_tools && !text.empty() && text[0] == '{';
    if (is_json && role == ChatRole::kSystem) {
      tools.push_back({"f", text, text});
    } else if (is_json && role == ChatRole::kAssistant) {
      messages.push_back({role, "", {{"f", text}}});
    } else {
      messages.push_back({role, text, {}, role == ChatRole::kTool ? "f" : ""});
    }
  }
  worker::CheckChat(tokenizer, format, messages, add_prompt, tools);
  return 0;
}
