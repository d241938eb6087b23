// The format has Gemma's turns, a developer's turn with tools, and calls with
// their responses inside the model's turn.
#include "worker/text/chat/chat_function_gemma.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/chat/chat_segments.h"
#include "worker/text/chat/tool_text.h"

namespace plimsoll::worker {
namespace {

// The text before declarations that the model was trained on.
constexpr absl::string_view kTrigger =
    "You are a model that can do function calling with the following functions";

class Renderer {
 public:
  Renderer(const std::vector<ChatMessage>& messages,
           const std::vector<Tool>& tools)
      : messages_(messages), tools_(tools) {}

  absl::StatusOr<std::vector<ChatSegment>> Render(bool add_generation_prompt) {
    RETURN_IF_ERROR(Developer());
    if (at_ == messages_.size()) {
      return absl::InvalidArgumentError(
          "format functiongemma needs a user message after the system message");
    }
    while (at_ < messages_.size()) {
      RETURN_IF_ERROR(UserTurn());
      if (at_ < messages_.size()) RETURN_IF_ERROR(ModelTurn());
    }
    if (add_generation_prompt) RETURN_IF_ERROR(OpenModelTurn());
    return out_.Take();
  }

 private:
  absl::Status WrongRole(absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "format functiongemma takes an optional system message, then user and "
        "assistant in turn, and behind an assistant's calls their responses: "
        "message ",
        at_, " has role ", RoleName(messages_[at_].role), ", not ", expected));
  }

  bool Is(ChatRole role) const {
    return at_ < messages_.size() && messages_[at_].role == role;
  }

  // All but the marks is content. One run of text is cut into tokens as in the
  // model's training, and becomes no control token.
  void Marked(absl::string_view begin, absl::string_view text,
              absl::string_view end) {
    out_.Scaffold(begin);
    while (true) {
      const size_t n = text.find(kEscapeMark);
      out_.Content(text.substr(0, n));
      if (n == absl::string_view::npos) break;
      out_.Scaffold(kEscape);
      text.remove_prefix(n + 1);
    }
    out_.Scaffold(end);
  }

  absl::Status Developer() {
    const bool has_system = Is(ChatRole::kSystem);
    if (!has_system && tools_.empty()) return absl::OkStatus();
    out_.Scaffold("<start_of_turn>developer\n");
    if (has_system) {
      out_.Content(TrimChat(messages_[at_++].content));
    } else {
      out_.Scaffold(kTrigger);
    }
    for (const Tool& tool : tools_) {
      ASSIGN_OR_RETURN(const std::string text, WriteToolDeclaration(tool));
      Marked(kDeclarationBegin, text, kDeclarationEnd);
    }
    out_.Scaffold("<end_of_turn>\n");
    return absl::OkStatus();
  }

  absl::Status UserTurn() {
    if (!Is(ChatRole::kUser)) return WrongRole("user");
    out_.Scaffold("<start_of_turn>user\n");
    out_.Content(TrimChat(messages_[at_++].content));
    out_.Scaffold("<end_of_turn>\n");
    return absl::OkStatus();
  }

  // Renders the assistant's messages up to the next user's, with the responses
  // between them. The turn stays open if it ends with calls or responses.
  absl::Status ModelTurn() {
    if (!Is(ChatRole::kAssistant)) return WrongRole("assistant");
    out_.Scaffold("<start_of_turn>model\n");
    is_turn_open_ = true;
    while (is_turn_open_ && at_ < messages_.size()) {
      if (!Is(ChatRole::kAssistant)) return WrongRole("assistant");
      const ChatMessage& message = messages_[at_++];
      out_.Content(TrimChat(message.content));
      if (message.tool_calls.empty()) {
        out_.Scaffold("<end_of_turn>\n");
        is_turn_open_ = false;
        break;
      }
      RETURN_IF_ERROR(Calls(message.tool_calls));
    }
    return absl::OkStatus();
  }

  absl::Status Calls(const std::vector<ToolCall>& calls) {
    for (const ToolCall& call : calls) {
      ASSIGN_OR_RETURN(const std::string text, WriteToolCall(call));
      Marked(kCallBegin, text, kCallEnd);
    }
    are_calls_open_ = at_ == messages_.size();
    if (are_calls_open_) return absl::OkStatus();
    for (const ToolCall& call : calls) {
      if (!Is(ChatRole::kTool)) return NoResponse(call);
      const ChatMessage& message = messages_[at_];
      if (message.tool_name != call.name) return NoResponse(call);
      ASSIGN_OR_RETURN(const std::string text,
                       WriteToolResponse(message.tool_name, message.content));
      Marked(kResponseBegin, text, kResponseEnd);
      ++at_;
    }
    return absl::OkStatus();
  }

  absl::Status NoResponse(const ToolCall& call) const {
    return absl::InvalidArgumentError(
        absl::StrCat("message ", at_, " is not the response of ", call.name,
                     ": calls have one each, in their order"));
  }

  // The model goes on behind responses in the turn that they are in.
  absl::Status OpenModelTurn() {
    if (are_calls_open_) {
      return absl::InvalidArgumentError(
          "the last message has calls without responses, so the model cannot "
          "go on");
    }
    if (!is_turn_open_) out_.Scaffold("<start_of_turn>model\n");
    return absl::OkStatus();
  }

  const std::vector<ChatMessage>& messages_;
  const std::vector<Tool>& tools_;
  SegmentWriter out_;
  size_t at_ = 0;  // index of the next message
  bool is_turn_open_ = false;
  bool are_calls_open_ = false;  // the last calls have no responses
};

}  // namespace

absl::StatusOr<std::vector<ChatSegment>> RenderFunctionGemma(
    const std::vector<ChatMessage>& messages, const std::vector<Tool>& tools,
    bool add_generation_prompt) {
  return Renderer(messages, tools).Render(add_generation_prompt);
}

bool HasToolMarkers(const Tokenizer& tokenizer) {
  return std::all_of(std::begin(kToolMarkers), std::end(kToolMarkers),
                     [&tokenizer](absl::string_view marker) {
                       const auto id = tokenizer.Find(marker);
                       if (!id) return false;
                       const TokenType type = tokenizer.Type(*id);
                       return type == TokenType::kControl ||
                              type == TokenType::kUserDefined;
                     });
}

ReplyFormat FunctionGemmaReplies() { return FindReplyFormat(kCallBegin); }

}  // namespace plimsoll::worker
