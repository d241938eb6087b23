// Chat formats as segments of scaffold and content.
#include "worker/text/chat/chat_template.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/chat/chat_function_gemma.h"
#include "worker/text/chat/chat_segments.h"

namespace plimsoll::worker {
namespace {

constexpr absl::string_view kSmolLm2System =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

// Checks the tools of a conversation. Errors: kInvalidArgument if a format
// without tools gets any.
absl::Status CheckTools(ChatFormat format,
                        const std::vector<ChatMessage>& messages,
                        const std::vector<Tool>& tools) {
  bool has_tools = !tools.empty();
  for (const ChatMessage& message : messages) {
    const bool has_calls = !message.tool_calls.empty();
    if (has_calls && message.role != ChatRole::kAssistant) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message with role ", RoleName(message.role),
                       " has calls: only the assistant makes them"));
    }
    has_tools |= has_calls || message.role == ChatRole::kTool;
  }
  if (has_tools && !FormatHasTools(format)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "format ", ChatFormatName(format), " has no tools; functiongemma has"));
  }
  return absl::OkStatus();
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

// A leading system text goes unchanged, with an empty line after it, in front
// of the first user turn's content. All content is trimmed.
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
    out.Content(TrimChat(messages[i].content));
    out.Scaffold("<end_of_turn>\n");
  }
  if (add_generation_prompt) out.Scaffold("<start_of_turn>model\n");
  return out.Take();
}

// Appends the ids of text that users wrote. Some vocabularies have the markers
// of tools as user-defined tokens, which match text even without special
// tokens. Such a marker is cut behind its first character, so that text stays
// text.
absl::Status AppendContent(const Tokenizer& tokenizer, absl::string_view text,
                           StopCheck stop, std::vector<int32_t>& ids) {
  std::vector<absl::string_view> markers;
  for (const absl::string_view marker : kToolMarkers) {
    const auto id = tokenizer.Find(marker);
    if (id && tokenizer.Type(*id) == TokenType::kUserDefined) {
      markers.push_back(marker);
    }
  }
  size_t begin = 0;
  const auto append = [&](size_t end) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<int32_t> part,
                     tokenizer.Encode(text.substr(begin, end - begin),
                                      ParseSpecial::kNo, stop));
    ids.insert(ids.end(), part.begin(), part.end());
    begin = end;
    return absl::OkStatus();
  };
  for (size_t i = 0; !markers.empty() && i < text.size(); ++i) {
    if (text[i] != '<') continue;
    const bool is_marker = std::any_of(
        markers.begin(), markers.end(), [&](absl::string_view marker) {
          return absl::StartsWith(text.substr(i), marker);
        });
    if (is_marker) RETURN_IF_ERROR(append(i + 1));
  }
  return append(text.size());
}

}  // namespace

absl::StatusOr<std::vector<ChatSegment>> RenderChat(
    ChatFormat format, const std::vector<ChatMessage>& messages,
    GenerationPrompt prompt, const std::vector<Tool>& tools) {
  RETURN_IF_ERROR(CheckChatLimits(messages, tools));
  RETURN_IF_ERROR(CheckTools(format, messages, tools));
  const bool add_generation_prompt = prompt == GenerationPrompt::kAdded;
  switch (format) {
    case ChatFormat::kSmolLm2:
      return RenderChatMl(messages, kSmolLm2System, add_generation_prompt);
    case ChatFormat::kChatMl:
      return RenderChatMl(messages, "", add_generation_prompt);
    case ChatFormat::kGemma3:
      return RenderGemma3(messages, add_generation_prompt);
    case ChatFormat::kFunctionGemma:
      return RenderFunctionGemma(messages, tools, add_generation_prompt);
  }
  return absl::InvalidArgumentError("unknown chat format");
}

std::string ChatText(const std::vector<ChatSegment>& segments) {
  std::string text;
  for (const ChatSegment& segment : segments) text += segment.text;
  return text;
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(
    const Tokenizer& tokenizer, const std::vector<ChatSegment>& segments,
    const EncodeLimits& limits) {
  RETURN_IF_ERROR(CheckSegmentsFit(tokenizer, segments, limits));
  std::vector<int32_t> ids;
  if (tokenizer.add_bos() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
  for (size_t i = 0; i < segments.size();) {
    const bool is_scaffold = segments[i].is_scaffold;
    std::string text;
    for (; i < segments.size() && segments[i].is_scaffold == is_scaffold; ++i) {
      text += segments[i].text;
    }
    if (!is_scaffold) {
      RETURN_IF_ERROR(AppendContent(tokenizer, text, limits.stop, ids));
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<int32_t> part,
                     tokenizer.Encode(text, ParseSpecial::kYes, limits.stop));
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

absl::StatusOr<ChatFrame> EncodeFrame(const Tokenizer& tokenizer,
                                      ChatFormat format,
                                      const std::string* system,
                                      const EncodeLimits& limits) {
  std::vector<ChatMessage> messages = {{ChatRole::kUser, "1"},
                                       {ChatRole::kAssistant, "2"},
                                       {ChatRole::kUser, "3"}};
  if (system != nullptr) {
    messages.insert(messages.begin(), {ChatRole::kSystem, *system});
  }
  ASSIGN_OR_RETURN(std::vector<ChatSegment> segments,
                   RenderChat(format, messages, GenerationPrompt::kLeftOut));
  // From `first` on, segment 1 follows the user's content and segment 3 the
  // reply.
  PLIMSOLL_CHECK(segments.size() > 6, "a scaffold is around every message");
  const size_t first = segments.size() - 6;
  ChatFrame frame;
  ASSIGN_OR_RETURN(frame.after_user, tokenizer.Encode(segments[first + 1].text,
                                                      ParseSpecial::kYes));
  ASSIGN_OR_RETURN(frame.after_reply, tokenizer.Encode(segments[first + 3].text,
                                                       ParseSpecial::kYes));
  segments.resize(first);
  ASSIGN_OR_RETURN(frame.opening, EncodeChat(tokenizer, segments, limits));
  return frame;
}

absl::StatusOr<std::vector<int32_t>> EncodeContent(const Tokenizer& tokenizer,
                                                   ChatFormat format,
                                                   const std::string& content,
                                                   const EncodeLimits& limits) {
  ASSIGN_OR_RETURN(const std::vector<ChatSegment> segments,
                   RenderChat(format, {{ChatRole::kUser, content}},
                              GenerationPrompt::kLeftOut));
  std::vector<int32_t> ids;
  for (const ChatSegment& segment : segments) {
    if (segment.is_scaffold) continue;
    RETURN_IF_ERROR(tokenizer.CheckFits(tokenizer.LeastBytes(segment.text),
                                        limits.max_tokens));
    RETURN_IF_ERROR(AppendContent(tokenizer, segment.text, limits.stop, ids));
    break;
  }
  return ids;
}

}  // namespace plimsoll::worker
