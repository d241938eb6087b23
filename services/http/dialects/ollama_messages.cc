#include "services/http/dialects/ollama_messages.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/http/dialects/chat_messages.h"
#include "services/http/request_fields.h"

namespace plimsoll::services {
namespace {

// A call that no message has answered yet.
struct OpenCall {
  std::string id;  // may be empty
  std::string name;
};

class OllamaConversation {
 public:
  // `chat` outlives it.
  explicit OllamaConversation(v1::ChatPrompt& chat) : chat_(chat) {}

  absl::Status ReadMessage(const Json& json, const std::string& path) {
    ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
    v1::ChatMessage& message = *chat_.add_messages();
    ASSIGN_OR_RETURN(const auto role, fields.Text("role"));
    if (role == "system") {
      message.set_role(v1::CHAT_ROLE_SYSTEM);
    } else if (role == "user") {
      message.set_role(v1::CHAT_ROLE_USER);
    } else if (role == "assistant") {
      message.set_role(v1::CHAT_ROLE_ASSISTANT);
    } else if (role == "tool") {
      message.set_role(v1::CHAT_ROLE_TOOL);
    } else {
      return fields.Bad("role", "must be system, user, assistant or tool");
    }
    ASSIGN_OR_RETURN(const auto content, fields.Text("content"));
    message.set_content(content.value_or(""));
    RETURN_IF_ERROR(fields.AllowOnly(
        "images", Json::array(), "must be empty: this server reads no images"));
    RETURN_IF_ERROR(ReadCalls(fields, path, message));
    RETURN_IF_ERROR(ReadAnswer(fields, message));
    ASSIGN_OR_RETURN(const auto thought, fields.Text("thinking"));
    if (role == "assistant") message.set_reasoning(thought.value_or(""));
    return fields.End();
  }

 private:
  absl::Status ReadCalls(JsonFields& fields, const std::string& path,
                         v1::ChatMessage& message) {
    const Json* calls = fields.Find("tool_calls");
    if (calls == nullptr) return absl::OkStatus();
    if (!calls->is_array()) return fields.Bad("tool_calls", "must be an array");
    for (size_t i = 0; i < calls->size(); ++i) {
      RETURN_IF_ERROR(ReadCall((*calls)[i],
                               absl::StrCat(path, "tool_calls[", i, "]."),
                               *message.add_tool_calls()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadCall(const Json& json, const std::string& path,
                        v1::ToolCall& added) {
    ASSIGN_OR_RETURN(JsonFields call, JsonFields::Of(json, path));
    ASSIGN_OR_RETURN(const auto id, call.Text("id"));
    RETURN_IF_ERROR(call.AllowOnly("type", "function", "must be function"));
    const Json* function = call.Find("function");
    if (function == nullptr) return call.Bad("function", "is missing");
    RETURN_IF_ERROR(call.End());
    ASSIGN_OR_RETURN(
        JsonFields inner,
        JsonFields::Of(*function, absl::StrCat(path, "function.")));
    ASSIGN_OR_RETURN(const auto name, inner.Text("name"));
    const Json* arguments = inner.Find("arguments");
    if (arguments != nullptr && !arguments->is_object()) {
      return inner.Bad("arguments", "must be a JSON object");
    }
    inner.Ignore({"index"});
    RETURN_IF_ERROR(inner.End());
    added.set_name(name.value_or(""));
    added.set_arguments(arguments == nullptr ? "{}" : Dump(*arguments));
    open_.push_back({id.value_or(""), added.name()});
    return absl::OkStatus();
  }

  absl::Status ReadAnswer(JsonFields& fields, v1::ChatMessage& message) {
    ASSIGN_OR_RETURN(const auto name, fields.Text("tool_name"));
    ASSIGN_OR_RETURN(const auto id, fields.Text("tool_call_id"));
    if (message.role() != v1::CHAT_ROLE_TOOL) return absl::OkStatus();
    message.set_content(ToolResponse(message.content()));
    for (auto call = open_.begin(); call != open_.end(); ++call) {
      if (name.has_value() && *name != call->name) continue;
      if (id.has_value() && *id != call->id) continue;
      message.set_tool_name(call->name);
      open_.erase(call);
      return absl::OkStatus();
    }
    return fields.Bad("role", "is tool, but no call before it waits for this");
  }

  v1::ChatPrompt& chat_;
  std::deque<OpenCall> open_;
};

}  // namespace

absl::Status ReadOllamaConversation(JsonFields& fields, v1::ChatPrompt& chat) {
  const Json* messages = fields.Find("messages");
  if (messages != nullptr && !messages->is_array()) {
    return fields.Bad("messages", "must be an array");
  }
  OllamaConversation conversation(chat);
  for (size_t i = 0; messages != nullptr && i < messages->size(); ++i) {
    RETURN_IF_ERROR(conversation.ReadMessage(
        (*messages)[i], absl::StrCat("messages[", i, "].")));
  }
  return ReadFunctions(fields, chat);
}

}  // namespace plimsoll::services
