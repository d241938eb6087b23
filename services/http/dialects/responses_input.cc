#include "services/http/dialects/responses_input.h"

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "services/http/request_fields.h"

namespace plimsoll::services {
namespace {

constexpr char kOnlyTextContent[] =
    "must be input_text or output_text: this server reads no images, sounds or "
    "files";

// Parts may have these types.
struct PartTypes {
  absl::string_view one;
  absl::string_view other;
};
constexpr PartTypes kTextParts = {"input_text", "output_text"};
constexpr PartTypes kReasoningParts = {"reasoning_text", "reasoning_text"};

// The texts of the parts of these types, joined. The field is a text itself, an
// array of parts, or absent.
absl::StatusOr<std::string> JoinContent(JsonFields& fields,
                                        const std::string& name,
                                        const std::string& path,
                                        const PartTypes& types) {
  const Json* parts = fields.Find(name);
  if (parts == nullptr) return "";
  if (parts->is_string()) return parts->get<std::string>();
  if (!parts->is_array()) {
    return fields.Bad(name, "must be a text or an array of parts");
  }
  std::string joined;
  for (size_t i = 0; i < parts->size(); ++i) {
    ASSIGN_OR_RETURN(
        JsonFields part,
        JsonFields::Of((*parts)[i], absl::StrCat(path, name, "[", i, "].")));
    ASSIGN_OR_RETURN(const auto given, part.Text("type"));
    if (given != types.one && given != types.other) {
      return part.Bad("type", types.one == "input_text"
                                  ? kOnlyTextContent
                                  : absl::StrCat("must be ", types.one));
    }
    ASSIGN_OR_RETURN(const auto text, part.Text("text"));
    if (!text.has_value()) return part.Bad("text", "is missing");
    // Parts of replies come back with them.
    part.Ignore({"annotations", "logprobs", "prompt_cache_breakpoint"});
    RETURN_IF_ERROR(part.End());
    joined += *text;
  }
  return joined;
}

absl::StatusOr<v1::ChatRole> MessageRole(const JsonFields& item,
                                         const std::string& role) {
  if (role == "system" || role == "developer") return v1::CHAT_ROLE_SYSTEM;
  if (role == "user") return v1::CHAT_ROLE_USER;
  if (role == "assistant") return v1::CHAT_ROLE_ASSISTANT;
  return item.Bad("role", "must be system, developer, user or assistant");
}

}  // namespace

void ItemReader::AddInstructions(const std::string& text) {
  if (!text.empty()) Add(v1::CHAT_ROLE_SYSTEM).set_content(text);
}

absl::Status ItemReader::Read(const Json& input, const std::string& name) {
  if (input.is_string()) {
    Add(v1::CHAT_ROLE_USER).set_content(input.get<std::string>());
    return absl::OkStatus();
  }
  if (!input.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": must be a text or an array of items"));
  }
  for (size_t i = 0; i < input.size(); ++i) {
    RETURN_IF_ERROR(ReadItem(input[i], absl::StrCat(name, "[", i, "].")));
  }
  return absl::OkStatus();
}

absl::Status ItemReader::ReadItem(const Json& json, const std::string& path) {
  ASSIGN_OR_RETURN(JsonFields item, JsonFields::Of(json, path));
  ASSIGN_OR_RETURN(const auto type, item.Text("type"));
  ASSIGN_OR_RETURN(const auto status, item.Text("status"));
  item.Ignore({"id"});  // items of replies come back with it
  if (!type.has_value() || type == "message") return ReadMessage(item, path);
  if (type == "reasoning") return ReadReasoning(item, path);
  if (type == "function_call") return ReadCall(item, status == "incomplete");
  if (type == "function_call_output") return ReadOutput(item, path);
  return item.Bad("type",
                  "must be message, reasoning, function_call or "
                  "function_call_output: this server runs no tools itself and "
                  "looks up no items");
}

absl::Status ItemReader::ReadMessage(JsonFields& item,
                                     const std::string& path) {
  ASSIGN_OR_RETURN(const auto role, item.Text("role"));
  ASSIGN_OR_RETURN(const v1::ChatRole known,
                   MessageRole(item, role.value_or("")));
  ASSIGN_OR_RETURN(const std::string text,
                   JoinContent(item, "content", path, kTextParts));
  item.Ignore({"phase"});
  RETURN_IF_ERROR(item.End());
  v1::ChatMessage* last = LastReply();
  const bool goes_on = known == v1::CHAT_ROLE_ASSISTANT && last != nullptr &&
                       (last->content().empty() || last->tool_calls_size() > 0);
  (goes_on ? *last : Add(known)).mutable_content()->append(text);
  return absl::OkStatus();
}

absl::Status ItemReader::ReadReasoning(JsonFields& item,
                                       const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text,
                   JoinContent(item, "content", path, kReasoningParts));
  // Only who encrypted it can read the one, and the other is no reasoning.
  item.Ignore({"encrypted_content", "summary"});
  RETURN_IF_ERROR(item.End());
  if (text.empty()) return absl::OkStatus();
  v1::ChatMessage* last = LastReply();
  const bool goes_on = last != nullptr && last->content().empty() &&
                       last->tool_calls_size() == 0;
  (goes_on ? *last : Add(v1::CHAT_ROLE_ASSISTANT))
      .mutable_reasoning()
      ->append(text);
  return absl::OkStatus();
}

absl::Status ItemReader::ReadCall(JsonFields& item, bool is_incomplete) {
  ASSIGN_OR_RETURN(const auto id, item.Text("call_id"));
  ASSIGN_OR_RETURN(const auto name, item.Text("name"));
  ASSIGN_OR_RETURN(const auto arguments, item.Text("arguments"));
  if (id.value_or("").empty()) return item.Bad("call_id", "is missing");
  RETURN_IF_ERROR(item.End());
  if (is_incomplete) {
    left_out_.insert(*id);
    return absl::OkStatus();
  }
  v1::ChatMessage* last = LastReply();
  v1::ToolCall& call = *(last != nullptr ? *last : Add(v1::CHAT_ROLE_ASSISTANT))
                            .add_tool_calls();
  call.set_name(name.value_or(""));
  call.set_arguments(arguments.value_or("{}"));
  names_[*id] = call.name();
  return absl::OkStatus();
}

absl::Status ItemReader::ReadOutput(JsonFields& item, const std::string& path) {
  ASSIGN_OR_RETURN(const auto id, item.Text("call_id"));
  const bool is_left_out = left_out_.contains(id.value_or(""));
  const auto name = names_.find(id.value_or(""));
  if (name == names_.end() && !is_left_out) {
    return item.Bad("call_id", "is not the id of a call before it");
  }
  ASSIGN_OR_RETURN(const std::string text,
                   JoinContent(item, "output", path, kTextParts));
  item.Ignore({"name"});
  RETURN_IF_ERROR(item.End());
  if (is_left_out) return absl::OkStatus();
  v1::ChatMessage& message = Add(v1::CHAT_ROLE_TOOL);
  message.set_tool_name(name->second);
  message.set_content(ToolResponse(text));
  return absl::OkStatus();
}

v1::ChatMessage& ItemReader::Add(v1::ChatRole role) {
  v1::ChatMessage& message = *chat_.add_messages();
  message.set_role(role);
  return message;
}

v1::ChatMessage* ItemReader::LastReply() {
  const int n = chat_.messages_size();
  if (n == 0 || chat_.messages(n - 1).role() != v1::CHAT_ROLE_ASSISTANT) {
    return nullptr;
  }
  return chat_.mutable_messages(n - 1);
}

}  // namespace plimsoll::services
