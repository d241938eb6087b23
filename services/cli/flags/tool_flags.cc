#include "services/cli/flags/tool_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "worker/text/chat/tool_text.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::cli {
namespace {

using worker::SchemaJson;

constexpr int64_t kMaxToolFileBytes = worker::kMaxTools * worker::kMaxToolBytes;

// Writes JSON; text that is not UTF-8 becomes U+FFFD.
std::string Dump(const SchemaJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   SchemaJson::error_handler_t::replace);
}

absl::StatusOr<v1::Tool> ToolFrom(const SchemaJson& json) {
  if (!json.is_object()) return absl::InvalidArgumentError("is not an object");
  const auto wrapped = json.find("function");
  if (wrapped != json.end()) {
    if (!wrapped->is_object()) {
      return absl::InvalidArgumentError("has a function that is no object");
    }
    return ToolFrom(*wrapped);
  }
  v1::Tool tool;
  for (const auto& [key, value] : json.items()) {
    if (key == "parameters") {
      tool.set_parameters(Dump(value));
      continue;
    }
    if (key != "name" && key != "description") continue;
    if (!value.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a ", key, " that is no text"));
    }
    std::string& field =
        key == "name" ? *tool.mutable_name() : *tool.mutable_description();
    field = value.get_ref<const std::string&>();
  }
  // The worker checks this too. The check here saves loading a model for a
  // request that is refused.
  RETURN_IF_ERROR(worker::WriteToolDeclaration(
                      {tool.name(), tool.description(), tool.parameters()})
                      .status());
  return tool;
}

}  // namespace

void AddToolFlags(CLI::App& app, ToolFlags* flags) {
  app.add_option(
         "--tools", flags->file,
         "Functions that the model may call: a JSON array of {\"name\", "
         "\"description\", \"parameters\"}; calls are printed as a "
         "JSON object a line. Needs a model whose chat format has tools; - is "
         "standard input")
      ->type_name("FILE")
      ->group("Tools");
  app.add_flag("--must-call", flags->must,
               "The reply has a call of one of the tools")
      ->group("Tools");
}

absl::StatusOr<std::vector<v1::Tool>> ToolsFromJson(absl::string_view json) {
  ASSIGN_OR_RETURN(const SchemaJson list, worker::ReadSchemaJson(json));
  if (!list.is_array() || list.empty()) {
    return absl::InvalidArgumentError("it is not a JSON array of tools");
  }
  if (list.size() > static_cast<size_t>(worker::kMaxTools)) {
    return absl::InvalidArgumentError(
        absl::StrCat(list.size(), " tools are more than ", worker::kMaxTools));
  }
  std::vector<v1::Tool> tools;
  for (const SchemaJson& one : list) {
    absl::StatusOr<v1::Tool> tool = ToolFrom(one);
    if (!tool.ok()) {
      return Prefixed(absl::StrCat("tool ", tools.size() + 1, ": "),
                      tool.status());
    }
    tools.push_back(*std::move(tool));
  }
  return tools;
}

absl::StatusOr<std::vector<v1::Tool>> ReadTools(const std::string& file,
                                                std::istream& in) {
  if (file.empty()) return std::vector<v1::Tool>();
  ASSIGN_OR_RETURN(const std::string json,
                   ReadText(file, in, kMaxToolFileBytes));
  absl::StatusOr<std::vector<v1::Tool>> tools = ToolsFromJson(json);
  if (!tools.ok()) return Prefixed("--tools: ", tools.status());
  return tools;
}

std::string ToolCallLine(const v1::ToolCall& call) {
  if (!call.error().empty()) {
    return absl::StrCat("{\"error\":", Dump(call.error()),
                        ",\"text\":", Dump(call.text()), "}\n");
  }
  return absl::StrCat("{\"name\":", Dump(call.name()),
                      ",\"arguments\":", call.arguments(), "}\n");
}

}  // namespace plimsoll::cli
