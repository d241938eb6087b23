#include "services/generation/call_constraint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAnyArguments[] = R"({"type": "object"})";

// The schema of one call. Each tool's parameters are a resource of their own,
// so that references in them stay among them.
Json CallSchema(const worker::Tool& tool, size_t number, bool is_any) {
  Json arguments = Json::parse(
      is_any || tool.parameters.empty() ? kAnyArguments : tool.parameters,
      /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (arguments.is_object() && !arguments.contains("$id")) {
    arguments["$id"] = absl::StrCat("plimsoll:tool-", number);
  }
  Json schema;
  schema["type"] = "object";
  schema["properties"]["name"]["const"] = tool.name;
  schema["properties"]["arguments"] = std::move(arguments);
  schema["required"] = {"name", "arguments"};
  schema["additionalProperties"] = false;
  return schema;
}

std::string CallsSchema(const std::vector<worker::Tool>& tools,
                        const std::string& only, bool is_any) {
  Json choices = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!only.empty() && tools[i].name != only) continue;
    choices.push_back(CallSchema(tools[i], i, is_any));
  }
  if (choices.size() == 1) return choices[0].dump();
  return Json{{"anyOf", std::move(choices)}}.dump();
}

bool HasTool(const std::vector<worker::Tool>& tools, const std::string& name) {
  return std::any_of(
      tools.begin(), tools.end(),
      [&name](const worker::Tool& tool) { return tool.name == name; });
}

// Why the calls of a reply cannot be held; empty if they can.
absl::string_view WhyFree(const std::optional<worker::ReplyReading>& reading,
                          const worker::GenerateOptions& options) {
  if (!reading) {
    return "the reply is not split, or how the model writes calls is not known";
  }
  if (reading->tools.empty()) return "there are no tools";
  if (options.constraint != nullptr) return "the request has a constraint";
  if (reading->format.syntax != worker::CallSyntax::kJson ||
      reading->format.call.close.empty()) {
    return "the model's template does not write calls as JSON between marks";
  }
  if (!options.shown_tokens.empty()) {
    return "the marks of the model's calls are control tokens";
  }
  return "";
}

}  // namespace

absl::StatusOr<worker::SchemaNotes> HoldCalls(
    const v1::ChatPrompt& chat,
    const std::optional<worker::ReplyReading>& reading,
    worker::ConstraintCache& cache, StopCheck stop,
    worker::GenerateOptions& options) {
  const bool is_required = chat.tool_choice() == v1::TOOL_CHOICE_REQUIRED;
  const std::string& only = chat.required_tool();
  if (const absl::string_view why = WhyFree(reading, options); !why.empty()) {
    if (!is_required) return worker::SchemaNotes();
    return absl::InvalidArgumentError(
        absl::StrCat("chat.tool_choice: a call cannot be required: ", why));
  }
  if (!only.empty() && !HasTool(reading->tools, only)) {
    return absl::InvalidArgumentError(
        "chat.required_tool: it is none of the tools");
  }
  worker::ConstraintSource source = {
      .form = worker::ConstraintSource::Form::kJsonSchema,
      .text = CallsSchema(reading->tools, only, /*is_any=*/false),
      .options = {},
      .frame = {.trigger = std::string(reading->format.call.open),
                .is_first = is_required,
                .passage_open = std::string(reading->format.reasoning.open),
                .passage_close = std::string(reading->format.reasoning.close),
                .begins_passage = reading->begins_reasoning,
                .close = std::string(reading->format.call.close),
                .repeats = !chat.has_parallel_tool_calls() ||
                           chat.parallel_tool_calls()}};
  auto made = cache.Get(source, stop);
  worker::SchemaNotes notes;
  if (!made.ok()) {
    RETURN_IF_ERROR(stop());
    notes.push_back(absl::StrCat("tools: arguments are any objects: ",
                                 made.status().message()));
    source.text = CallsSchema(reading->tools, only, /*is_any=*/true);
    made = cache.Get(source, stop);
    RETURN_IF_ERROR(made.status());
  }
  notes.insert(notes.end(), made->notes.begin(), made->notes.end());
  options.constraint = std::move(made->grammar);
  return notes;
}

}  // namespace plimsoll::services
