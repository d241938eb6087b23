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

// gpt-oss: what stands between its reasoning and a call.
constexpr char kNextMessage[] = "<|start|>assistant";

// What the calls of a reply have to be.
struct CallRules {
  worker::CallForm form;
  bool is_required;
  bool may_repeat;   // a reply may have several calls
  std::string only;  // the name of the tool; empty = any

  bool Allows(const worker::Tool& tool) const {
    return only.empty() || tool.name == only;
  }
};

constexpr char kAnyArguments[] = R"({"type": "object"})";
// What a channel's header may have between a tool's name and the message.
constexpr const char* kContentTypes[] = {"", " json", " <|constrain|>json"};

// True if the properties of a tool's schema are all the arguments there are.
// A required name that is no property is one more.
bool ListsAllNames(const Json& arguments) {
  const auto properties = arguments.find("properties");
  if (properties == arguments.end() || !properties->is_object()) return false;
  for (const char* keyword :
       {"$ref", "$dynamicRef", "additionalProperties", "allOf", "anyOf",
        "dependencies", "dependentSchemas", "if", "minProperties", "oneOf",
        "patternProperties", "unevaluatedProperties"}) {
    if (arguments.contains(keyword)) return false;
  }
  const auto required = arguments.find("required");
  return required == arguments.end() || !required->is_array() ||
         std::all_of(required->begin(), required->end(), [&](const Json& name) {
           return name.is_string() &&
                  properties->contains(name.get_ref<const std::string&>());
         });
}

// The schema of a tool's arguments. Each tool's parameters are a resource of
// their own, so that references in them stay among them.
Json ArgumentsSchema(const worker::Tool& tool, size_t number, bool is_any) {
  Json arguments = Json::parse(
      is_any || tool.parameters.empty() ? kAnyArguments : tool.parameters,
      /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!arguments.is_object()) return arguments;
  if (!arguments.contains("$id")) {
    arguments["$id"] = absl::StrCat("plimsoll:tool-", number);
  }
  if (!arguments.contains("type")) arguments["type"] = "object";
  if (ListsAllNames(arguments)) arguments["additionalProperties"] = false;
  return arguments;
}

// Calls that are objects, or items of a list.
Json ObjectSchema(const worker::Tool& tool, Json arguments,
                  worker::CallForm form) {
  Json schema;
  schema["type"] = "object";
  if (form == worker::CallForm::kToolList) {
    schema["properties"]["tool_call_id"] = {{"type", "string"},
                                            {"maxLength", worker::kMaxFrameId}};
    schema["properties"]["tool_name"]["const"] = tool.name;
    schema["properties"]["parameters"] = std::move(arguments);
    schema["required"] = {"tool_call_id", "tool_name", "parameters"};
  } else {
    schema["properties"]["name"]["const"] = tool.name;
    schema["properties"]["arguments"] = std::move(arguments);
    schema["required"] = {"name", "arguments"};
  }
  schema["additionalProperties"] = false;
  return schema;
}

// What stands around the arguments of a call.
worker::FrameChoice NamedFrame(const std::string& name, worker::CallForm form) {
  using Form = worker::CallForm;
  const std::vector<std::string> id;  // without texts it is one
  switch (form) {
    case Form::kNamed:
      return {.before = {{absl::StrCat(name, "[ARGS]")}}};
    case Form::kNamedById:
      return {.before = {{absl::StrCat(name, "[CALL_ID]")}, id, {"[ARGS]"}}};
    case Form::kChannel:
      return {.before = {{name},
                         {std::begin(kContentTypes), std::end(kContentTypes)},
                         {"<|message|>"}}};
    case Form::kSeparated:
      return {.before = {{absl::StrCat(name, "<｜tool▁sep｜>")}}};
    case Form::kFenced:
      return {.before = {{absl::StrCat("function<｜tool▁sep｜>", name,
                                       "\n```json\n")}},
              .after = "\n```"};
    case Form::kCounted:
      return {.before = {{absl::StrCat("functions.", name, ":")},
                         id,
                         {"<|tool_call_argument_begin|>"}}};
    case Form::kFree:
    case Form::kObject:
    case Form::kList:
    case Form::kToolList:
      break;
  }
  return {};
}

bool IsList(worker::CallForm form) {
  return form == worker::CallForm::kList || form == worker::CallForm::kToolList;
}

bool IsObject(worker::CallForm form) {
  return form == worker::CallForm::kObject || IsList(form);
}

// The schema of what stands between the marks of a call. With names around the
// arguments it is an array of the arguments of each tool.
std::string CallsSchema(const std::vector<worker::Tool>& tools,
                        const CallRules& rules, bool is_any) {
  Json items = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!rules.Allows(tools[i])) continue;
    Json arguments = ArgumentsSchema(tools[i], i, is_any);
    items.push_back(
        IsObject(rules.form)
            ? ObjectSchema(tools[i], std::move(arguments), rules.form)
            : std::move(arguments));
  }
  Json schema;
  if (!IsObject(rules.form)) {
    schema["type"] = "array";
    schema["minItems"] = items.size();
    schema["prefixItems"] = std::move(items);
    schema["items"] = false;
    return schema.dump();
  }
  Json call =
      items.size() == 1 ? Json(items[0]) : Json{{"anyOf", std::move(items)}};
  if (!IsList(rules.form)) return call.dump();
  schema["type"] = "array";
  schema["items"] = std::move(call);
  schema["minItems"] = 1;
  if (!rules.may_repeat) schema["maxItems"] = 1;
  return schema.dump();
}

// Where calls stand in a reply.
worker::SchemaFrame CallFrame(const worker::ReplyReading& reading,
                              const CallRules& rules) {
  const worker::ReplyFormat& format = reading.format;
  worker::SchemaFrame frame = {
      .trigger = std::string(format.call.open),
      .is_first = rules.is_required,
      .passage_open = std::string(format.reasoning.open),
      .passage_close = std::string(format.reasoning.close),
      .begins_passage = reading.begins_reasoning,
      .has_space = IsObject(rules.form),
      .close = std::string(format.call.close),
      .repeats = rules.may_repeat && !IsList(rules.form),
      .outer_open = std::string(format.all_calls.open),
      .outer_close = std::string(format.all_calls.close)};
  if (rules.form == worker::CallForm::kChannel) {
    // The mark that ends a call ends the reply, too.
    frame.repeats = false;
    frame.passage_close += kNextMessage;
  }
  if (IsObject(rules.form)) return frame;
  for (const worker::Tool& tool : reading.tools) {
    if (!rules.Allows(tool)) continue;
    frame.choices.push_back(NamedFrame(tool.name, rules.form));
  }
  return frame;
}

// The control tokens among the marks. Those that end a reply may come only
// where a call has them.
std::vector<worker::GrammarMark> MarksOf(const std::vector<int32_t>& ids,
                                         const worker::Tokenizer& tokenizer) {
  std::vector<worker::GrammarMark> marks;
  for (const int32_t id : ids) {
    worker::GrammarMark& mark = marks.emplace_back();
    tokenizer.AppendBytes(id, /*render_special=*/true, mark.text);
    mark.id = id;
    mark.is_free = !tokenizer.IsEnd(id);
  }
  return marks;
}

// Why the calls of a reply cannot be held; empty if they can.
absl::string_view WhyFree(const std::optional<worker::ReplyReading>& reading,
                          const worker::GenerateOptions& options) {
  if (!reading) {
    return "the reply is not split, or how the model writes calls is not known";
  }
  if (reading->tools.empty()) return "there are no tools";
  if (options.constraint != nullptr) return "the request has a constraint";
  if (reading->format.form == worker::CallForm::kFree) {
    return "the model's template does not write calls as JSON behind a mark";
  }
  return "";
}

}  // namespace

absl::StatusOr<worker::SchemaNotes> HoldCalls(
    const v1::ChatPrompt& chat,
    const std::optional<worker::ReplyReading>& reading,
    const worker::Tokenizer& tokenizer, worker::ConstraintCache& cache,
    StopCheck stop, worker::GenerateOptions& options) {
  const bool is_required = chat.tool_choice() == v1::TOOL_CHOICE_REQUIRED;
  if (const absl::string_view why = WhyFree(reading, options); !why.empty()) {
    if (!is_required) return worker::SchemaNotes();
    return absl::InvalidArgumentError(
        absl::StrCat("chat.tool_choice: a call cannot be required: ", why));
  }
  const CallRules rules = {.form = reading->format.form,
                           .is_required = is_required,
                           .may_repeat = !chat.has_parallel_tool_calls() ||
                                         chat.parallel_tool_calls(),
                           .only = chat.required_tool()};
  if (std::none_of(
          reading->tools.begin(), reading->tools.end(),
          [&rules](const worker::Tool& tool) { return rules.Allows(tool); })) {
    return absl::InvalidArgumentError(
        "chat.required_tool: it is none of the tools");
  }
  worker::ConstraintSource source = {
      .form = worker::ConstraintSource::Form::kJsonSchema,
      .text = CallsSchema(reading->tools, rules, /*is_any=*/false),
      .options = {},
      .frame = CallFrame(*reading, rules)};
  source.frame.marks = MarksOf(options.shown_tokens, tokenizer);
  auto made = cache.Get(source, stop);
  worker::SchemaNotes notes;
  if (!made.ok()) {
    RETURN_IF_ERROR(stop());
    notes.push_back(absl::StrCat("tools: arguments are any objects: ",
                                 made.status().message()));
    source.text = CallsSchema(reading->tools, rules, /*is_any=*/true);
    made = cache.Get(source, stop);
    RETURN_IF_ERROR(made.status());
  }
  notes.insert(notes.end(), made->notes.begin(), made->notes.end());
  options.constraint = std::move(made->grammar);
  return notes;
}

}  // namespace plimsoll::services
