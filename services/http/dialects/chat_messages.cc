#include "services/http/dialects/chat_messages.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/http/request_fields.h"
#include "worker/text/chat/chat_template.h"

namespace plimsoll::services {
namespace {

// The names of the tools that were called, by the ids of the calls.
using CallNames = std::map<std::string, std::string>;

absl::StatusOr<v1::ChatRole> RoleOf(const JsonFields& fields,
                                    const std::string& role) {
  if (role == "system" || role == "developer") return v1::CHAT_ROLE_SYSTEM;
  if (role == "user") return v1::CHAT_ROLE_USER;
  if (role == "assistant") return v1::CHAT_ROLE_ASSISTANT;
  if (role == "tool") return v1::CHAT_ROLE_TOOL;
  return fields.Bad("role",
                    "must be system, developer, user, assistant or tool");
}

// A text, or an array of parts that are texts, which are joined.
absl::StatusOr<std::string> ReadContent(JsonFields& fields,
                                        const std::string& path) {
  const Json* content = fields.Find("content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    return fields.Bad("content", "must be a text or an array of parts");
  }
  std::string text;
  for (const Json& one : *content) {
    ASSIGN_OR_RETURN(JsonFields part,
                     JsonFields::Of(one, absl::StrCat(path, "content.")));
    ASSIGN_OR_RETURN(const auto type, part.Text("type"));
    if (type != "text") {
      return part.Bad("type",
                      "must be text: this server reads no images, "
                      "sounds or files");
    }
    ASSIGN_OR_RETURN(const auto piece, part.Text("text"));
    RETURN_IF_ERROR(part.End());
    text += piece.value_or("");
  }
  return text;
}

absl::Status ReadCall(const Json& json, const std::string& path,
                      CallNames& names, v1::ChatMessage& message) {
  ASSIGN_OR_RETURN(JsonFields call, JsonFields::Of(json, path));
  ASSIGN_OR_RETURN(const auto id, call.Text("id"));
  RETURN_IF_ERROR(call.AllowOnly("type", "function", "must be function"));
  const Json* function = call.Find("function");
  if (function == nullptr) return call.Bad("function", "is missing");
  ASSIGN_OR_RETURN(JsonFields inner,
                   JsonFields::Of(*function, absl::StrCat(path, "function.")));
  ASSIGN_OR_RETURN(const auto name, inner.Text("name"));
  ASSIGN_OR_RETURN(const auto arguments, inner.Text("arguments"));
  RETURN_IF_ERROR(inner.End());
  call.Ignore({"index"});
  RETURN_IF_ERROR(call.End());
  v1::ToolCall& added = *message.add_tool_calls();
  added.set_name(name.value_or(""));
  added.set_arguments(arguments.value_or("{}"));
  if (id.has_value()) names[*id] = added.name();
  return absl::OkStatus();
}

absl::Status ReadCalls(JsonFields& fields, const std::string& path,
                       CallNames& names, v1::ChatMessage& message) {
  const Json* calls = fields.Find("tool_calls");
  if (calls == nullptr) return absl::OkStatus();
  if (!calls->is_array()) return fields.Bad("tool_calls", "must be an array");
  for (const Json& call : *calls) {
    RETURN_IF_ERROR(
        ReadCall(call, absl::StrCat(path, "tool_calls."), names, message));
  }
  return absl::OkStatus();
}

absl::Status ReadAnswer(JsonFields& fields, const CallNames& names,
                        v1::ChatMessage& message) {
  ASSIGN_OR_RETURN(const auto id, fields.Text("tool_call_id"));
  if (message.role() != v1::CHAT_ROLE_TOOL) return absl::OkStatus();
  const auto name = names.find(id.value_or(""));
  if (name == names.end()) {
    return fields.Bad("tool_call_id", "is not the id of a call before it");
  }
  message.set_tool_name(name->second);
  message.set_content(ToolResponse(message.content()));
  return absl::OkStatus();
}

absl::Status ReadMessage(const Json& json, const std::string& path,
                         CallNames& names, v1::ChatMessage& message) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
  ASSIGN_OR_RETURN(const auto role, fields.Text("role"));
  ASSIGN_OR_RETURN(const v1::ChatRole known, RoleOf(fields, role.value_or("")));
  message.set_role(known);
  ASSIGN_OR_RETURN(*message.mutable_content(), ReadContent(fields, path));
  RETURN_IF_ERROR(ReadCalls(fields, path, names, message));
  RETURN_IF_ERROR(ReadAnswer(fields, names, message));
  for (const char* name : {"reasoning", "reasoning_content"}) {
    ASSIGN_OR_RETURN(const auto thought, fields.Text(name));
    if (known == v1::CHAT_ROLE_ASSISTANT && thought.has_value()) {
      message.set_reasoning(*thought);
    }
  }
  // Other fields of replies that come back are no part of a prompt.
  fields.Ignore({"name", "refusal", "annotations", "audio", "function_call"});
  return fields.End();
}

// {"type": "function", "function": {"name": N, ...}}
absl::Status ReadTool(const Json& json, const std::string& path,
                      v1::Tool& tool) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
  RETURN_IF_ERROR(fields.AllowOnly("type", "function", "must be function"));
  const Json* function = fields.Find("function");
  if (function == nullptr) return fields.Bad("function", "is missing");
  RETURN_IF_ERROR(fields.End());
  ASSIGN_OR_RETURN(JsonFields inner,
                   JsonFields::Of(*function, absl::StrCat(path, "function.")));
  return ReadFunction(inner, tool);
}

// {"type": "function", "function": {"name": N}}
absl::Status ReadNamedChoice(const Json& json, v1::ChatPrompt& chat) {
  ASSIGN_OR_RETURN(JsonFields choice, JsonFields::Of(json, "tool_choice."));
  RETURN_IF_ERROR(choice.AllowOnly("type", "function", "must be function"));
  const Json* function = choice.Find("function");
  if (function == nullptr) return choice.Bad("function", "is missing");
  RETURN_IF_ERROR(choice.End());
  ASSIGN_OR_RETURN(JsonFields inner,
                   JsonFields::Of(*function, "tool_choice.function."));
  return RequireFunction(inner, chat);
}

absl::Status ReadToolList(JsonFields& fields, const ToolSpelling& spelling,
                          v1::ChatPrompt& chat) {
  const Json* tools = fields.Find("tools");
  if (tools == nullptr) return absl::OkStatus();
  if (!tools->is_array()) return fields.Bad("tools", "must be an array");
  for (const Json& tool : *tools) {
    const std::string path = absl::StrCat("tools[", chat.tools_size(), "].");
    RETURN_IF_ERROR(spelling.read_tool(tool, path, *chat.add_tools()));
  }
  return absl::OkStatus();
}

constexpr ToolSpelling kWrapped = {ReadTool, ReadNamedChoice};

}  // namespace

absl::Status ReadConversation(JsonFields& fields, v1::ChatPrompt& chat) {
  const Json* messages = fields.Find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.Bad("messages", "must be an array with a message at least");
  }
  CallNames names;
  for (const Json& message : *messages) {
    const std::string path =
        absl::StrCat("messages[", chat.messages_size(), "].");
    RETURN_IF_ERROR(ReadMessage(message, path, names, *chat.add_messages()));
  }
  return ReadToolUse(fields, kWrapped, chat);
}

absl::Status ReadFunctions(JsonFields& fields, v1::ChatPrompt& chat) {
  return ReadToolList(fields, kWrapped, chat);
}

absl::Status ReadToolUse(JsonFields& fields, const ToolSpelling& spelling,
                         v1::ChatPrompt& chat) {
  ASSIGN_OR_RETURN(const auto parallel, fields.Bool("parallel_tool_calls"));
  if (parallel.has_value()) chat.set_parallel_tool_calls(*parallel);
  const Json* choice = fields.Find("tool_choice");
  RETURN_IF_ERROR(ReadToolList(fields, spelling, chat));
  if (choice == nullptr) return absl::OkStatus();
  // Without tools a choice means nothing, but it has to be one.
  v1::ChatPrompt none;
  v1::ChatPrompt& chosen = chat.tools_size() == 0 ? none : chat;
  if (choice->is_object()) return spelling.read_choice(*choice, chosen);
  if (*choice == "none") {
    chosen.clear_tools();
  } else if (*choice == "required") {
    chosen.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  } else if (*choice != "auto") {
    return fields.Bad("tool_choice",
                      "must be auto, none, required or a function");
  }
  return absl::OkStatus();
}

absl::Status ReadFunction(JsonFields& function, v1::Tool& tool) {
  ASSIGN_OR_RETURN(const auto name, function.Text("name"));
  ASSIGN_OR_RETURN(const auto description, function.Text("description"));
  tool.set_name(name.value_or(""));
  tool.set_description(description.value_or(""));
  const Json* parameters = function.Find("parameters");
  if (parameters != nullptr) tool.set_parameters(Dump(*parameters));
  // The model's format does not say which calls are strict.
  function.Ignore({"strict"});
  return function.End();
}

absl::Status RequireFunction(JsonFields& function, v1::ChatPrompt& chat) {
  ASSIGN_OR_RETURN(const auto name, function.Text("name"));
  if (name.value_or("").empty()) return function.Bad("name", "is missing");
  chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  chat.set_required_tool(*name);
  return function.End();
}

}  // namespace plimsoll::services
