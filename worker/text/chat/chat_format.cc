// A file's template is recognised, but never run.
#include "worker/text/chat/chat_format.h"

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "planner/model/architectures.h"
#include "worker/text/chat/chat_segments.h"

namespace plimsoll::worker {
namespace {

constexpr absl::string_view kFormatNames =
    "chatml, functiongemma, gemma3, smollm2";

// Formats that are recognised but not supported.
struct KnownMarker {
  absl::string_view marker;
  absl::string_view family;
};
constexpr KnownMarker kRefused[] = {
    {"<|turn>", "Gemma 4"},
    {"<|start_header_id|>", "Llama 3"},
    {"[INST]", "Mistral or Llama 2"},
    {"<|channel|>", "gpt-oss"},
};

// The template without what does not change its output: white space and dashes
// of the tags, and the kind of quotes.
std::string Canonical(absl::string_view text) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
      out += c == '\n' ? "\\n" : std::string(1, c == '"' ? '\'' : c);
    } else if (c == '\'' || c == '"') {
      quote = c;
      out += '\'';
    } else if (c != ' ' && c != '\n' && c != '\t' && c != '\r' && c != '-') {
      out += c;
    }
  }
  return out;
}

// True if `chat_template` is ChatML as its inventors wrote it: every message in
// its turn, nothing added, nothing left out.
bool IsPlainChatMl(absl::string_view chat_template) {
  // Longer ones have tools or reasoning in them.
  constexpr size_t kMaxPlainBytes = 1'024;
  if (chat_template.size() > kMaxPlainBytes) return false;
  const std::string canonical = Canonical(chat_template);
  absl::string_view rest = canonical;
  absl::ConsumePrefix(&rest,
                      "{%ifnotadd_generation_promptisdefined%}"
                      "{%setadd_generation_prompt=false%}{%endif%}");
  if (!absl::ConsumePrefix(&rest, "{%formessageinmessages%}{{")) return false;
  if (!absl::ConsumePrefix(&rest,
                           "'<|im_start|>'+message['role']+'\\n'+"
                           "message['content']+'<|im_end|>'+'\\n'") &&
      !absl::ConsumePrefix(&rest,
                           "'<|im_start|>'+message['role']+'\\n'+"
                           "message['content']+'<|im_end|>\\n'")) {
    return false;
  }
  return rest ==
         "}}{%endfor%}{%ifadd_generation_prompt%}"
         "{{'<|im_start|>assistant\\n'}}{%endif%}";
}

absl::Status Refuse(absl::string_view why) {
  return absl::UnimplementedError(absl::StrCat(
      why, "; choose one with --chat-format (", kFormatNames, ")"));
}

absl::StatusOr<ChatFormatChoice> FromTemplate(absl::string_view text) {
  for (const KnownMarker& known : kRefused) {
    if (absl::StrContains(text, known.marker)) {
      return Refuse(absl::StrCat("tokenizer.chat_template has '", known.marker,
                                 "': the format of ", known.family,
                                 " is not known here"));
    }
  }
  if (absl::StrContains(text, kDeclarationBegin)) {
    return ChatFormatChoice{ChatFormat::kFunctionGemma, "the file's template"};
  }
  if (absl::StrContains(text, "<|im_start|>")) {
    if (absl::StrContains(text,
                          "You are a helpful AI assistant named SmolLM, "
                          "trained by Hugging Face") &&
        !absl::StrContains(text, "tool")) {
      return ChatFormatChoice{ChatFormat::kSmolLm2, "the file's template"};
    }
    if (IsPlainChatMl(text)) {
      return ChatFormatChoice{ChatFormat::kChatMl, "the file's template"};
    }
    return Refuse(
        "tokenizer.chat_template has '<|im_start|>' but is not plain ChatML");
  }
  if (absl::StrContains(text, "<start_of_turn>")) {
    return ChatFormatChoice{ChatFormat::kGemma3, "the file's template"};
  }
  constexpr size_t kShownBytes = 60;
  return Refuse(
      absl::StrCat("tokenizer.chat_template is not known: it begins "
                   "with \"",
                   absl::CEscape(text.substr(0, kShownBytes)), "\""));
}

}  // namespace

absl::string_view ChatFormatName(ChatFormat format) {
  switch (format) {
    case ChatFormat::kSmolLm2:
      return "smollm2";
    case ChatFormat::kChatMl:
      return "chatml";
    case ChatFormat::kGemma3:
      return "gemma3";
    case ChatFormat::kFunctionGemma:
      return "functiongemma";
  }
  return "";
}

bool FormatHasTools(ChatFormat format) {
  return format == ChatFormat::kFunctionGemma;
}

absl::StatusOr<ChatFormat> ParseChatFormat(absl::string_view name) {
  for (const ChatFormat format :
       {ChatFormat::kChatMl, ChatFormat::kFunctionGemma, ChatFormat::kGemma3,
        ChatFormat::kSmolLm2}) {
    if (name == ChatFormatName(format)) return format;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "chat format '", absl::CEscape(name), "' is not one of ", kFormatNames));
}

absl::StatusOr<ChatFormatChoice> ChooseChatFormat(
    const planner::GgufHeader& header) {
  const auto text = header.String("tokenizer.chat_template");
  if (!text.ok()) return text.status();
  if (text->has_value() && !(*text)->empty()) return FromTemplate(**text);
  const auto architecture = header.String("general.architecture");
  if (!architecture.ok()) return architecture.status();
  const std::string name = architecture->value_or("unknown");
  const planner::Architecture* known = planner::FindArchitecture(name);
  if (known != nullptr && !known->chat_format.empty()) {
    const auto format = ParseChatFormat(known->chat_format);
    if (!format.ok()) return format.status();
    return ChatFormatChoice{
        *format, absl::StrCat("the file has no template: the format of its "
                              "architecture, ",
                              name)};
  }
  return Refuse(absl::StrCat("the file has no chat template and architecture '",
                             absl::CEscape(name),
                             "' has no format of its own"));
}

}  // namespace plimsoll::worker
