#include "worker/text/chat/tool_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/schema_reader.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

// The reader must accept all that is written, so both have the same depth.
static_assert(kMaxToolCallDepth == kMaxSchemaDepth);

absl::Status BadTool(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

absl::Status CheckName(absl::string_view name) {
  if (IsToolName(name)) return absl::OkStatus();
  return BadTool(absl::StrCat(
      "'", absl::CEscape(name.substr(0, 2 * kMaxToolNameBytes)),
      "' is no name of a tool: a letter or _, then letters, digits, _, - and "
      "., at most ",
      kMaxToolNameBytes));
}

const std::string& TextOf(const SchemaJson& json) {
  return json.get_ref<const std::string&>();
}

void AppendString(absl::string_view text, std::string& out) {
  absl::StrAppend(&out, absl::string_view(&kEscapeMark, 1), text,
                  absl::string_view(&kEscapeMark, 1));
}

// A name that could be taken for syntax is written as a string.
void AppendKey(absl::string_view key, std::string& out) {
  if (IsToolName(key)) {
    absl::StrAppend(&out, key);
  } else {
    AppendString(key, out);
  }
  out += ':';
}

struct Member {
  std::string lower;
  absl::string_view key;
  const SchemaJson* value;
};

// Sorts members without regard to case, as the format's template does.
std::vector<Member> Sorted(const SchemaJson& object) {
  std::vector<Member> members;
  for (const auto& [key, value] : object.items()) {
    members.push_back({absl::AsciiStrToLower(key), key, &value});
  }
  std::stable_sort(
      members.begin(), members.end(),
      [](const Member& a, const Member& b) { return a.lower < b.lower; });
  return members;
}

// Appends a value. The reader limits its depth to kMaxSchemaDepth.
void AppendValue(const SchemaJson& json, std::string& out) {
  if (json.is_string()) return AppendString(TextOf(json), out);
  if (!json.is_structured()) {
    out += json.dump();
    return;
  }
  out += json.is_object() ? '{' : '[';
  bool is_first = true;
  const auto separate = [&] {
    if (!std::exchange(is_first, false)) out += ',';
  };
  if (json.is_object()) {
    for (const Member& member : Sorted(json)) {
      separate();
      AppendKey(member.key, out);
      AppendValue(*member.value, out);
    }
  } else {
    for (const SchemaJson& element : json) {
      separate();
      AppendValue(element, out);
    }
  }
  out += json.is_object() ? '}' : ']';
}

absl::Status AppendSchema(const SchemaJson& schema, std::string& out);

absl::Status AppendProperties(const SchemaJson& properties, std::string& out) {
  if (!properties.is_object()) return BadTool("'properties' is not an object");
  out += '{';
  bool is_first = true;
  for (const Member& member : Sorted(properties)) {
    if (!std::exchange(is_first, false)) out += ',';
    AppendKey(member.key, out);
    RETURN_IF_ERROR(AppendSchema(*member.value, out));
  }
  out += '}';
  return absl::OkStatus();
}

// A type or a list of them, upper-case.
absl::Status AppendType(const SchemaJson& type, std::string& out) {
  if (type.is_string()) {
    AppendString(absl::AsciiStrToUpper(TextOf(type)), out);
    return absl::OkStatus();
  }
  if (!type.is_array())
    return BadTool("'type' is no name and no list of names");
  out += '[';
  bool is_first = true;
  for (const SchemaJson& one : type) {
    if (!one.is_string()) return BadTool("'type' has what is no name");
    if (!std::exchange(is_first, false)) out += ',';
    AppendString(absl::AsciiStrToUpper(TextOf(one)), out);
  }
  out += ']';
  return absl::OkStatus();
}

// Appends the value of a keyword that is shown.
absl::Status AppendKeyword(absl::string_view key, const SchemaJson& value,
                           std::string& out) {
  if (key == "properties") return AppendProperties(value, out);
  if (key == "items") return AppendSchema(value, out);
  if (key == "type") return AppendType(value, out);
  const bool is_list = key == "enum" || key == "required";
  if (is_list && !value.is_array()) {
    return BadTool(absl::StrCat("'", key, "' is not a list"));
  }
  if (key == "description" && !value.is_string()) {
    return BadTool("'description' is not a text");
  }
  AppendValue(value, out);
  return absl::OkStatus();
}

absl::Status AppendSchema(const SchemaJson& schema, std::string& out) {
  if (!schema.is_object()) return BadTool("a schema is not an object");
  out += '{';
  bool is_first = true;
  // The keys are in the order of the template's sorting.
  for (const char* key : {"description", "enum", "items", "nullable",
                          "properties", "required", "type"}) {
    const auto found = schema.find(key);
    if (found == schema.end()) continue;
    if (!std::exchange(is_first, false)) out += ',';
    absl::StrAppend(&out, key, ":");
    RETURN_IF_ERROR(AppendKeyword(key, *found, out));
  }
  out += '}';
  return absl::OkStatus();
}

absl::Status AppendParameters(const std::string& parameters, std::string& out) {
  ASSIGN_OR_RETURN(const SchemaJson schema, ReadSchemaJson(parameters));
  if (!schema.is_object()) return BadTool("it is not an object");
  const auto type = schema.find("type");
  if (type != schema.end() && *type != "object") {
    return BadTool("its type is not \"object\"");
  }
  return AppendSchema(schema, out);
}

}  // namespace

absl::StatusOr<std::string> WriteToolDeclaration(const Tool& tool) {
  RETURN_IF_ERROR(CheckName(tool.name));
  const auto bytes = static_cast<int64_t>(
      tool.name.size() + tool.description.size() + tool.parameters.size());
  if (bytes > kMaxToolBytes) {
    return BadTool(absl::StrCat("the tool ", tool.name, " has ", bytes,
                                " bytes, more than ", kMaxToolBytes));
  }
  if (!IsValidUtf8(tool.description)) {
    return BadTool(absl::StrCat("the description of the tool ", tool.name,
                                " is not UTF-8"));
  }
  std::string out = absl::StrCat("declaration:", tool.name, "{description:");
  AppendString(tool.description, out);
  if (!tool.parameters.empty()) {
    out += ",parameters:";
    if (const absl::Status status = AppendParameters(tool.parameters, out);
        !status.ok()) {
      return BadTool(absl::StrCat("the parameters of the tool ", tool.name,
                                  ": ", status.message()));
    }
  }
  out += '}';
  return out;
}

absl::StatusOr<std::string> WriteToolCall(const ToolCall& call) {
  RETURN_IF_ERROR(CheckName(call.name));
  if (static_cast<int64_t>(call.arguments.size()) > kMaxToolCallBytes) {
    return BadTool(absl::StrCat("the arguments of a call of ", call.name,
                                " are longer than ", kMaxToolCallBytes,
                                " bytes"));
  }
  const auto json =
      ReadSchemaJson(call.arguments.empty() ? "{}" : call.arguments);
  if (!json.ok() || !json->is_object()) {
    return BadTool(absl::StrCat(
        "the arguments of a call of ", call.name, ": ",
        json.ok() ? "they are not an object" : json.status().message()));
  }
  std::string out = absl::StrCat("call:", call.name);
  AppendValue(*json, out);
  return out;
}

absl::StatusOr<std::string> WriteToolResponse(absl::string_view name,
                                              absl::string_view json) {
  RETURN_IF_ERROR(CheckName(name));
  const auto value = ReadSchemaJson(json);
  if (!value.ok()) {
    return BadTool(
        absl::StrCat("the response of ", name, ": ", value.status().message()));
  }
  std::string out = absl::StrCat("response:", name);
  if (value->is_object()) {
    AppendValue(*value, out);
  } else {
    out += "{value:";
    AppendValue(*value, out);
    out += '}';
  }
  return out;
}

}  // namespace plimsoll::worker
