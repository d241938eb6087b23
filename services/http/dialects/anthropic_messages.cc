#include "services/http/dialects/anthropic_messages.h"

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/http/request_fields.h"

namespace plimsoll::services {
namespace {

constexpr char kOnlyText[] =
    "is not read: this server reads texts, not images, documents or results "
    "of tools that run elsewhere";

// The text of a block. Citations of replies come back with them.
absl::StatusOr<std::string> ReadText(JsonFields& block) {
  ASSIGN_OR_RETURN(const auto text, block.Text("text"));
  if (!text.has_value()) return block.Bad("text", "is missing");
  block.Ignore({"cache_control", "citations"});
  RETURN_IF_ERROR(block.End());
  return *text;
}

// A text, or an array of blocks that are texts.
absl::StatusOr<std::string> ReadTexts(JsonFields& fields,
                                      const std::string& name,
                                      const std::string& path) {
  const Json* content = fields.Find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    return fields.Bad(name, "must be a text or an array of blocks");
  }
  std::string texts;
  for (size_t i = 0; i < content->size(); ++i) {
    ASSIGN_OR_RETURN(
        JsonFields block,
        JsonFields::Of((*content)[i], absl::StrCat(path, name, "[", i, "].")));
    ASSIGN_OR_RETURN(const auto type, block.Text("type"));
    if (type != "text") return block.Bad("type", kOnlyText);
    ASSIGN_OR_RETURN(const std::string text, ReadText(block));
    texts += text;
  }
  return texts;
}

// Builds a conversation from the messages of a request.
class MessagesReader {
 public:
  // `chat` outlives it.
  explicit MessagesReader(v1::ChatPrompt& chat) : chat_(chat) {}

  absl::Status ReadSystem(JsonFields& fields) {
    ASSIGN_OR_RETURN(const std::string text, ReadTexts(fields, "system", ""));
    if (!text.empty()) Say(v1::CHAT_ROLE_SYSTEM, text);
    return absl::OkStatus();
  }

  absl::Status ReadMessage(const Json& json, const std::string& path) {
    ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
    ASSIGN_OR_RETURN(const auto role, fields.Text("role"));
    is_new_ = true;
    if (role == "system") {
      ASSIGN_OR_RETURN(const std::string text,
                       ReadTexts(fields, "content", path));
      Say(v1::CHAT_ROLE_SYSTEM, text);
      return fields.End();
    }
    if (role != "user" && role != "assistant") {
      return fields.Bad("role", "must be user, assistant or system");
    }
    const Json* content = fields.Find("content");
    if (content == nullptr) return fields.Bad("content", "is missing");
    RETURN_IF_ERROR(fields.End());
    const v1::ChatRole known =
        role == "user" ? v1::CHAT_ROLE_USER : v1::CHAT_ROLE_ASSISTANT;
    if (content->is_string()) {
      Say(known, content->get<std::string>());
      return absl::OkStatus();
    }
    if (!content->is_array()) {
      return fields.Bad("content", "must be a text or an array of blocks");
    }
    for (size_t i = 0; i < content->size(); ++i) {
      RETURN_IF_ERROR(ReadBlock((*content)[i], known,
                                absl::StrCat(path, "content[", i, "].")));
    }
    return absl::OkStatus();
  }

 private:
  // The last message if `role` said it, else a new one.
  v1::ChatMessage& Turn(v1::ChatRole role) {
    const int n = chat_.messages_size();
    if (n > 0 && chat_.messages(n - 1).role() == role) {
      return *chat_.mutable_messages(n - 1);
    }
    v1::ChatMessage& message = *chat_.add_messages();
    message.set_role(role);
    return message;
  }

  void Say(v1::ChatRole role, const std::string& text) {
    std::string& content = *Turn(role).mutable_content();
    if (is_new_ && !content.empty() && !text.empty()) content += "\n\n";
    content += text;
    is_new_ = false;
  }

  absl::Status ReadBlock(const Json& json, v1::ChatRole role,
                         const std::string& path) {
    ASSIGN_OR_RETURN(JsonFields block, JsonFields::Of(json, path));
    ASSIGN_OR_RETURN(const auto type, block.Text("type"));
    if (type == "text") {
      ASSIGN_OR_RETURN(const std::string text, ReadText(block));
      Say(role, text);
      return absl::OkStatus();
    }
    const bool is_user = role == v1::CHAT_ROLE_USER;
    if (type == "tool_result" && is_user) return ReadResult(block, path);
    if (type == "tool_use" && !is_user) return ReadCall(block);
    if (type == "thinking" && !is_user) {
      ASSIGN_OR_RETURN(const auto thought, block.Text("thinking"));
      *Turn(role).mutable_reasoning() += thought.value_or("");
      return absl::OkStatus();
    }
    if (type == "redacted_thinking" && !is_user) return absl::OkStatus();
    return block.Bad("type", kOnlyText);
  }

  absl::Status ReadCall(JsonFields& block) {
    ASSIGN_OR_RETURN(const auto id, block.Text("id"));
    ASSIGN_OR_RETURN(const auto name, block.Text("name"));
    const Json* input = block.Find("input");
    if (input == nullptr || !input->is_object()) {
      return block.Bad("input", "must be a JSON object");
    }
    block.Ignore({"cache_control", "caller", "toolset_name"});
    RETURN_IF_ERROR(block.End());
    v1::ToolCall& call = *Turn(v1::CHAT_ROLE_ASSISTANT).add_tool_calls();
    call.set_name(name.value_or(""));
    call.set_arguments(Dump(*input));
    names_[id.value_or("")] = call.name();
    return absl::OkStatus();
  }

  absl::Status ReadResult(JsonFields& block, const std::string& path) {
    ASSIGN_OR_RETURN(const auto id, block.Text("tool_use_id"));
    const auto name = names_.find(id.value_or(""));
    if (name == names_.end()) {
      return block.Bad("tool_use_id", "is not the id of a call before it");
    }
    ASSIGN_OR_RETURN(const std::string text, ReadTexts(block, "content", path));
    // Its text says what went wrong.
    block.Ignore({"cache_control", "is_error", "toolset_name"});
    RETURN_IF_ERROR(block.End());
    v1::ChatMessage& message = *chat_.add_messages();
    message.set_role(v1::CHAT_ROLE_TOOL);
    message.set_tool_name(name->second);
    message.set_content(ToolResponse(text));
    return absl::OkStatus();
  }

  v1::ChatPrompt& chat_;
  std::map<std::string, std::string> names_;  // tools' names by ids of calls
  bool is_new_ = true;  // the present message has said nothing yet
};

absl::Status ReadCustomTool(const Json& json, const std::string& path,
                            v1::Tool& tool) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
  RETURN_IF_ERROR(fields.AllowOnly(
      "type", "custom", "must be custom: this server runs no tools itself"));
  ASSIGN_OR_RETURN(const auto name, fields.Text("name"));
  ASSIGN_OR_RETURN(const auto description, fields.Text("description"));
  tool.set_name(name.value_or(""));
  tool.set_description(description.value_or(""));
  const Json* schema = fields.Find("input_schema");
  if (schema != nullptr) tool.set_parameters(Dump(*schema));
  RETURN_IF_ERROR(fields.AllowOnly(
      "defer_loading", false, "must be false: there is no search of tools"));
  // The model's format does not say which calls are strict, and shows no
  // examples. A call comes when it is complete.
  fields.Ignore({"allowed_callers", "cache_control", "eager_input_streaming",
                 "input_examples", "strict"});
  return fields.End();
}

// Reads "tool_choice". Returns false if no tool may be called.
absl::StatusOr<bool> ReadChoice(JsonFields& fields, v1::ChatPrompt& chat) {
  const Json* given = fields.Find("tool_choice");
  if (given == nullptr) return true;
  ASSIGN_OR_RETURN(JsonFields choice, JsonFields::Of(*given, "tool_choice."));
  ASSIGN_OR_RETURN(const auto type, choice.Text("type"));
  ASSIGN_OR_RETURN(const auto one, choice.Bool("disable_parallel_tool_use"));
  if (one.has_value()) chat.set_parallel_tool_calls(!*one);
  ASSIGN_OR_RETURN(const auto name, choice.Text("name"));
  RETURN_IF_ERROR(choice.End());
  if (type == "none") return false;
  if (type == "auto") return true;
  if (type == "tool") {
    if (name.value_or("").empty()) return choice.Bad("name", "is missing");
    chat.set_required_tool(*name);
  } else if (type != "any") {
    return choice.Bad("type", "must be auto, any, tool or none");
  }
  chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  return true;
}

absl::Status ReadCustomTools(JsonFields& fields, v1::ChatPrompt& chat) {
  const Json* tools = fields.Find("tools");
  ASSIGN_OR_RETURN(const bool may_call, ReadChoice(fields, chat));
  if (tools != nullptr && !tools->is_array()) {
    return fields.Bad("tools", "must be an array");
  }
  if (tools == nullptr && chat.tool_choice() == v1::TOOL_CHOICE_REQUIRED) {
    return fields.Bad("tool_choice", "needs tools");
  }
  if (tools == nullptr) return absl::OkStatus();
  for (const Json& tool : *tools) {
    const std::string path = absl::StrCat("tools[", chat.tools_size(), "].");
    RETURN_IF_ERROR(ReadCustomTool(tool, path, *chat.add_tools()));
  }
  if (!may_call) chat.clear_tools();
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadAnthropicConversation(JsonFields& fields,
                                       v1::ChatPrompt& chat) {
  const Json* messages = fields.Find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.Bad("messages", "must be an array with a message at least");
  }
  MessagesReader conversation(chat);
  RETURN_IF_ERROR(conversation.ReadSystem(fields));
  for (size_t i = 0; i < messages->size(); ++i) {
    RETURN_IF_ERROR(conversation.ReadMessage(
        (*messages)[i], absl::StrCat("messages[", i, "].")));
  }
  if (chat.messages_size() == 0) return fields.Bad("messages", "say nothing");
  return ReadCustomTools(fields, chat);
}

}  // namespace plimsoll::services
