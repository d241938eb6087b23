// Chat formats as segments of scaffold and content.
#include "worker/chat_template.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/utf8.h"

namespace plimsoll::worker {
namespace {

constexpr absl::string_view kSmolLm2System =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

// Joins adjacent segments of one kind.
class SegmentWriter {
 public:
  void Scaffold(absl::string_view text) { Add(text, true); }
  void Content(absl::string_view text) { Add(text, false); }
  std::vector<ChatSegment> Take() { return std::move(segments_); }

 private:
  void Add(absl::string_view text, bool is_scaffold) {
    if (text.empty()) return;
    if (segments_.empty() || segments_.back().is_scaffold != is_scaffold) {
      segments_.push_back({std::string(), is_scaffold});
    }
    segments_.back().text.append(text.data(), text.size());
  }

  std::vector<ChatSegment> segments_;
};

absl::string_view RoleName(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
  }
  return "";
}

absl::Status CheckLimits(const std::vector<ChatMessage>& messages) {
  if (messages.empty()) {
    return absl::InvalidArgumentError(
        "chat.messages is empty: a conversation needs a message");
  }
  if (static_cast<int64_t>(messages.size()) > kMaxChatMessages) {
    return absl::InvalidArgumentError(
        absl::StrCat("a conversation of ", messages.size(),
                     " messages is longer than ", kMaxChatMessages));
  }
  int64_t bytes = 0;
  for (const ChatMessage& message : messages) {
    bytes += static_cast<int64_t>(message.content.size());
  }
  if (bytes > kMaxChatBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a conversation of ", bytes,
                                                   " bytes is longer than ",
                                                   kMaxChatBytes, " bytes"));
  }
  return absl::OkStatus();
}

uint32_t CodePoint(absl::string_view bytes) {
  constexpr uint32_t kLeadMask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t value =
      static_cast<unsigned char>(bytes[0]) & kLeadMask[bytes.size()];
  for (const char c : bytes.substr(1)) {
    value = (value << 6) | (static_cast<unsigned char>(c) & 0x3F);
  }
  return value;
}

// What the templates' own `trim` takes away: Python's str.isspace.
bool IsTrimmed(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

absl::string_view Trim(absl::string_view text) {
  while (!text.empty()) {
    const Utf8Front front = ReadUtf8Front(text);
    const auto bytes = static_cast<size_t>(front.bytes);
    if (front.kind != Utf8Kind::kWhole) break;
    if (!IsTrimmed(CodePoint(text.substr(0, bytes)))) break;
    text.remove_prefix(bytes);
  }
  while (!text.empty()) {
    // The last code point begins at most 3 bytes (of these characters) back.
    size_t bytes = 1;
    while (bytes < 3 && bytes < text.size() &&
           (text[text.size() - bytes] & 0xC0) == 0x80) {
      ++bytes;
    }
    const absl::string_view last = text.substr(text.size() - bytes);
    const Utf8Front front = ReadUtf8Front(last);
    if (front.kind != Utf8Kind::kWhole) break;
    if (static_cast<size_t>(front.bytes) != bytes) break;
    if (!IsTrimmed(CodePoint(last))) break;
    text.remove_suffix(bytes);
  }
  return text;
}

std::vector<ChatSegment> RenderChatMl(const std::vector<ChatMessage>& messages,
                                      absl::string_view default_system,
                                      bool add_generation_prompt) {
  SegmentWriter out;
  if (!default_system.empty() && messages[0].role != ChatRole::kSystem) {
    out.Scaffold(
        absl::StrCat("<|im_start|>system\n", default_system, "<|im_end|>\n"));
  }
  for (const ChatMessage& message : messages) {
    out.Scaffold(absl::StrCat("<|im_start|>", RoleName(message.role), "\n"));
    out.Content(message.content);
    out.Scaffold("<|im_end|>\n");
  }
  if (add_generation_prompt) out.Scaffold("<|im_start|>assistant\n");
  return out.Take();
}

// Source: MODELS.md 5.1. A leading system text goes, as it is, in front of the
// first user turn's content, which like all content is trimmed.
absl::StatusOr<std::vector<ChatSegment>> RenderGemma3(
    const std::vector<ChatMessage>& messages, bool add_generation_prompt) {
  const size_t first = messages[0].role == ChatRole::kSystem ? 1 : 0;
  if (first == messages.size()) {
    return absl::InvalidArgumentError(
        "format gemma3 needs a user message after the system message");
  }
  SegmentWriter out;
  for (size_t i = first; i < messages.size(); ++i) {
    const bool is_user = (i - first) % 2 == 0;
    const ChatRole expected = is_user ? ChatRole::kUser : ChatRole::kAssistant;
    if (messages[i].role != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "format gemma3 takes an optional system message, then user and "
          "assistant in turn: message ",
          i, " has role ", RoleName(messages[i].role), ", not ",
          RoleName(expected)));
    }
    out.Scaffold(is_user ? "<start_of_turn>user\n" : "<start_of_turn>model\n");
    if (i == first && first > 0) {
      out.Content(messages[0].content);
      out.Scaffold("\n\n");
    }
    out.Content(Trim(messages[i].content));
    out.Scaffold("<end_of_turn>\n");
  }
  if (add_generation_prompt) out.Scaffold("<start_of_turn>model\n");
  return out.Take();
}

}  // namespace

absl::StatusOr<std::vector<ChatSegment>> RenderChat(
    ChatFormat format, const std::vector<ChatMessage>& messages,
    bool add_generation_prompt) {
  RETURN_IF_ERROR(CheckLimits(messages));
  switch (format) {
    case ChatFormat::kSmolLm2:
      return RenderChatMl(messages, kSmolLm2System, add_generation_prompt);
    case ChatFormat::kChatMl:
      return RenderChatMl(messages, "", add_generation_prompt);
    case ChatFormat::kGemma3:
      return RenderGemma3(messages, add_generation_prompt);
  }
  return absl::InvalidArgumentError("unknown chat format");
}

std::string ChatText(const std::vector<ChatSegment>& segments) {
  std::string text;
  for (const ChatSegment& segment : segments) text += segment.text;
  return text;
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(
    const Tokenizer& tokenizer, const std::vector<ChatSegment>& segments) {
  std::vector<int32_t> ids;
  if (tokenizer.add_bos() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
  for (size_t i = 0; i < segments.size();) {
    const bool is_scaffold = segments[i].is_scaffold;
    std::string text;
    for (; i < segments.size() && segments[i].is_scaffold == is_scaffold; ++i) {
      text += segments[i].text;
    }
    ASSIGN_OR_RETURN(const std::vector<int32_t> part,
                     tokenizer.Encode(text, is_scaffold));
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

absl::StatusOr<ChatFrame> EncodeFrame(const Tokenizer& tokenizer,
                                      ChatFormat format,
                                      const std::string* system) {
  std::vector<ChatMessage> messages = {{ChatRole::kUser, "1"},
                                       {ChatRole::kAssistant, "2"},
                                       {ChatRole::kUser, "3"}};
  if (system != nullptr) {
    messages.insert(messages.begin(), {ChatRole::kSystem, *system});
  }
  ASSIGN_OR_RETURN(
      std::vector<ChatSegment> segments,
      RenderChat(format, messages, /*add_generation_prompt=*/false));
  // From the end: what closes the turn, 3, between turns, 2, after a user, 1.
  PLIMSOLL_CHECK(segments.size() > 6, "a scaffold is around every message");
  const size_t first = segments.size() - 6;
  ChatFrame frame;
  ASSIGN_OR_RETURN(frame.after_user, tokenizer.Encode(segments[first + 1].text,
                                                      /*parse_special=*/true));
  ASSIGN_OR_RETURN(frame.after_reply, tokenizer.Encode(segments[first + 3].text,
                                                       /*parse_special=*/true));
  segments.resize(first);
  ASSIGN_OR_RETURN(frame.opening, EncodeChat(tokenizer, segments));
  return frame;
}

absl::StatusOr<std::vector<int32_t>> EncodeContent(const Tokenizer& tokenizer,
                                                   ChatFormat format,
                                                   const std::string& content) {
  ASSIGN_OR_RETURN(const std::vector<ChatSegment> segments,
                   RenderChat(format, {{ChatRole::kUser, content}},
                              /*add_generation_prompt=*/false));
  for (const ChatSegment& segment : segments) {
    if (!segment.is_scaffold) {
      return tokenizer.Encode(segment.text, /*parse_special=*/false);
    }
  }
  return std::vector<int32_t>();
}

}  // namespace plimsoll::worker
