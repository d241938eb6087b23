#include "services/wire/chat_tools.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/wire/generation_from_proto.h"
#include "services/wire/generation_to_proto.h"
#include "worker/text/chat/chat_function_gemma.h"

namespace plimsoll::services {
namespace {

bool HasTools(const ChatInput& conversation) {
  const std::vector<worker::ChatMessage>& messages = conversation.messages;
  return !conversation.tools.empty() ||
         std::any_of(messages.begin(), messages.end(),
                     [](const worker::ChatMessage& message) {
                       return !message.tool_calls.empty();
                     });
}

absl::StatusOr<ChatInput> ConversationOf(const v1::ChatPrompt& prompt) {
  ChatInput conversation;
  ASSIGN_OR_RETURN(conversation.messages, FromProto(prompt));
  ASSIGN_OR_RETURN(conversation.tools, ToolsFrom(prompt.tools(), "chat.tools"));
  conversation.add_generation_prompt =
      !prompt.has_add_generation_prompt() || prompt.add_generation_prompt();
  conversation.template_arguments = prompt.template_arguments();
  return conversation;
}

// True if a prompt ends with the mark that opens reasoning.
bool EndsInReasoning(const worker::ReplyFormat& format,
                     absl::string_view prompt) {
  return !format.reasoning.open.empty() &&
         absl::EndsWith(absl::StripTrailingAsciiWhitespace(prompt),
                        format.reasoning.open);
}

// Checks what a request says about calls, for a built-in format.
absl::Status CheckToolChoice(worker::ChatFormat format,
                             const v1::ChatPrompt& prompt) {
  if (!v1::ToolChoice_IsValid(prompt.tool_choice())) {
    return absl::InvalidArgumentError("chat.tool_choice is not a known choice");
  }
  const bool is_required = prompt.tool_choice() == v1::TOOL_CHOICE_REQUIRED;
  const bool has_tools = worker::FormatHasTools(format);
  if (!has_tools && (is_required || !prompt.required_tool().empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        is_required ? "chat.tool_choice" : "chat.required_tool", ": format ",
        worker::ChatFormatName(format), " has no tools"));
  }
  if (is_required && prompt.has_add_generation_prompt() &&
      !prompt.add_generation_prompt()) {
    return absl::InvalidArgumentError(
        "chat.tool_choice means nothing without add_generation_prompt");
  }
  return absl::OkStatus();
}

// How replies in a built-in format are marked; absent if nothing is.
// Errors: kInvalidArgument if the conversation needs marks that the vocabulary
// lacks.
absl::StatusOr<std::optional<worker::ReplyReading>> ReadingOf(
    const worker::Tokenizer& tokenizer, worker::ChatFormat format,
    const ChatInput& conversation) {
  std::optional<worker::ReplyReading> reading;
  if (!worker::FormatHasTools(format)) return reading;
  if (worker::HasToolMarkers(tokenizer)) {
    reading.emplace();
    reading->format = worker::FunctionGemmaReplies();
    reading->tools = conversation.tools;
  } else if (HasTools(conversation)) {
    return absl::InvalidArgumentError(
        "chat.tools: the model's vocabulary has no markers of tools, such as "
        "<start_function_call>");
  }
  return reading;
}

}  // namespace

absl::StatusOr<std::vector<worker::Tool>> ToolsFrom(
    const google::protobuf::RepeatedPtrField<v1::Tool>& tools,
    absl::string_view field) {
  if (tools.size() > worker::kMaxTools) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has more than ", worker::kMaxTools));
  }
  std::vector<worker::Tool> result;
  for (const v1::Tool& tool : tools) {
    const auto has_name = [&tool](const worker::Tool& other) {
      return other.name == tool.name();
    };
    if (std::any_of(result.begin(), result.end(), has_name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": ", tool.name(), " is there twice"));
    }
    result.push_back({tool.name(), tool.description(), tool.parameters()});
  }
  return result;
}

absl::StatusOr<EncodedChat> EncodeConversation(
    const worker::Tokenizer& tokenizer, worker::ChatFormat format,
    const ChatInput& conversation, const worker::EncodeLimits& limits) {
  ASSIGN_OR_RETURN(const std::vector<worker::ChatSegment> segments,
                   worker::RenderChat(format, conversation.messages,
                                      worker::GenerationPromptIf(
                                          conversation.add_generation_prompt),
                                      conversation.tools));
  EncodedChat chat;
  ASSIGN_OR_RETURN(chat.reading, ReadingOf(tokenizer, format, conversation));
  ASSIGN_OR_RETURN(chat.ids, worker::EncodeChat(tokenizer, segments, limits));
  chat.text = worker::ChatText(segments);
  return chat;
}

absl::StatusOr<EncodedChat> EncodeConversation(
    const worker::Tokenizer& tokenizer, const TimedTemplate& own,
    const ChatInput& conversation, const worker::EncodeLimits& limits) {
  ASSIGN_OR_RETURN(
      const std::vector<worker::ChatSegment> segments,
      own.program.Render(
          tokenizer, conversation.messages, conversation.tools,
          {.add_generation_prompt = conversation.add_generation_prompt,
           .now = own.now,
           .arguments = conversation.template_arguments}));
  EncodedChat chat;
  ASSIGN_OR_RETURN(chat.ids,
                   worker::EncodeTemplated(tokenizer, segments, limits));
  chat.text = worker::ChatText(segments);
  const worker::ReplyFormat& format = own.program.reply_format();
  if (!format.IsPlain()) {
    chat.reading = worker::ReplyReading{
        .format = format,
        .tools = conversation.tools,
        .begins_reasoning = EndsInReasoning(format, chat.text)};
  }
  return chat;
}

absl::StatusOr<EncodedChat> EncodeChatPrompt(
    const worker::Tokenizer& tokenizer, worker::ChatFormat format,
    const v1::ChatPrompt& prompt, const worker::EncodeLimits& limits) {
  ASSIGN_OR_RETURN(const ChatInput conversation, ConversationOf(prompt));
  RETURN_IF_ERROR(CheckToolChoice(format, prompt));
  return EncodeConversation(tokenizer, format, conversation, limits);
}

absl::StatusOr<EncodedChat> EncodeTemplatePrompt(
    const worker::Tokenizer& tokenizer, const TimedTemplate& own,
    const v1::ChatPrompt& prompt, const worker::EncodeLimits& limits) {
  ASSIGN_OR_RETURN(const ChatInput conversation, ConversationOf(prompt));
  if (!v1::ToolChoice_IsValid(prompt.tool_choice())) {
    return absl::InvalidArgumentError("chat.tool_choice is not a known choice");
  }
  ASSIGN_OR_RETURN(EncodedChat chat,
                   EncodeConversation(tokenizer, own, conversation, limits));
  chat.splits_reply = !prompt.has_split_reply() || prompt.split_reply();
  return chat;
}

v1::ToolCall ToProto(const worker::ReadToolCall& read) {
  v1::ToolCall message;
  if (read.call.ok()) {
    message.set_name(read.call->name);
    message.set_arguments(read.call->arguments);
  } else {
    message.set_error(std::string(read.call.status().message()));
    message.set_text(read.text);
  }
  return message;
}

void AddDelta(const worker::CallDelta& delta,
              google::protobuf::RepeatedPtrField<v1::ToolCallDelta>& deltas) {
  const auto index = static_cast<uint32_t>(delta.index);
  const bool goes_on =
      !deltas.empty() && deltas[deltas.size() - 1].index() == index;
  v1::ToolCallDelta& piece =
      goes_on ? deltas[deltas.size() - 1] : *deltas.Add();
  piece.set_index(index);
  piece.mutable_name()->append(delta.name);
  piece.mutable_arguments()->append(delta.arguments);
}

ReplyTools::ReplyTools(std::optional<worker::ReplyReading> reading,
                       const worker::Tokenizer& tokenizer)
    : tokenizer_(&tokenizer) {
  if (!reading) return;
  if (!reading->format.reasoning.close.empty()) reasoning_.emplace(*reading);
  splitter_.emplace(*std::move(reading));
}

void ReplyTools::CountReasoning(const worker::StepOutput& output) {
  if (!reasoning_) return;
  std::string bytes;
  for (const worker::TokenOutput& token : output.tokens) {
    if (tokenizer_->IsEnd(token.id)) continue;
    bytes.clear();
    tokenizer_->AppendBytes(token.id, worker::RenderSpecial::kYes, bytes);
    reasoning_->Push(bytes);
  }
}

v1::FinishReason ReplyTools::Reason(const worker::FinishInfo& info) const {
  if (info.reason == worker::FinishReason::kEndToken && has_call_) {
    return v1::FINISH_REASON_TOOL_CALL;
  }
  return ToProto(info.reason);
}

}  // namespace plimsoll::services
