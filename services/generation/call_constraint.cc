#include "services/generation/call_constraint.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "services/generation/call_forms.h"

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

// Sorts the members of all objects by their names, without regard to case.
Json Sorted(Json json) {
  if (!json.is_structured()) return json;  // such a value's range is itself
  for (Json& inner : json) inner = Sorted(std::move(inner));
  if (!json.is_object()) return json;
  struct Member {
    std::string lower;
    absl::string_view name;
    Json* value;
  };
  std::vector<Member> members;
  members.reserve(json.size());
  for (auto it = json.begin(); it != json.end(); ++it) {
    members.push_back({absl::AsciiStrToLower(it.key()), it.key(), &*it});
  }
  std::stable_sort(
      members.begin(), members.end(),
      [](const Member& a, const Member& b) { return a.lower < b.lower; });
  Json::object_t sorted;  // a vector; names are not looked up again
  sorted.reserve(members.size());
  for (const Member& member : members) {
    sorted.emplace_back(std::string(member.name), std::move(*member.value));
  }
  return sorted;
}

// The schema of a tool's arguments. Each tool's parameters are a resource of
// their own, so that references in them stay among them. Properties are written
// in the schema's order.
Json ArgumentsSchema(const worker::Tool& tool, size_t number, bool is_any,
                     worker::CallForm form) {
  Json arguments = Json::parse(
      is_any || tool.parameters.empty() ? kAnyArguments : tool.parameters,
      /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!arguments.is_object()) return arguments;
  if (!arguments.contains("$id")) {
    arguments["$id"] = absl::StrCat("plimsoll:tool-", number);
  }
  if (!arguments.contains("type")) arguments["type"] = "object";
  if (ListsAllNames(arguments)) arguments["additionalProperties"] = false;
  if (!IsSorted(form)) return arguments;
  return Sorted(std::move(arguments));
}

// The schema of a call that is JSON.
Json CallSchema(const worker::Tool& tool, Json arguments,
                worker::CallForm form) {
  const CallKeys keys = KeysOf(form);
  Json properties;
  Json required;
  if (keys.id != nullptr) {
    properties[keys.id] = {{"type", "string"},
                           {"maxLength", worker::kMaxFrameId}};
    required.push_back(keys.id);
  }
  properties[keys.name]["const"] = tool.name;
  properties[keys.arguments] = std::move(arguments);
  required.push_back(keys.name);
  required.push_back(keys.arguments);
  Json schema;
  schema["type"] = "object";
  schema["properties"] = std::move(properties);
  schema["required"] = std::move(required);
  schema["additionalProperties"] = false;
  return schema;
}

// The schema of a call, or of its arguments if the name stands around them.
Json ItemSchema(const worker::Tool& tool, size_t number, bool is_any,
                worker::CallForm form) {
  Json arguments = ArgumentsSchema(tool, number, is_any, form);
  if (!IsJson(form)) return arguments;
  return CallSchema(tool, std::move(arguments), form);
}

// The schema of what stands between the marks of a call. With names around the
// arguments it is an array of the arguments of each tool.
std::string CallsSchema(const std::vector<worker::Tool>& tools,
                        const CallRules& rules, bool is_any) {
  Json items = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!rules.Allows(tools[i])) continue;
    items.push_back(ItemSchema(tools[i], i, is_any, rules.form));
  }
  Json schema;
  if (!IsJson(rules.form)) {
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
  using Form = worker::CallForm;
  const worker::ReplyFormat& format = reading.format;
  const bool has_list = IsList(rules.form) || rules.form == Form::kPython;
  worker::SchemaFrame frame = {
      .trigger = std::string(format.call.open),
      .is_first = rules.is_required,
      .may_be_text = rules.form == Form::kBare && !rules.is_required,
      .passage_open = std::string(format.reasoning.open),
      .passage_close = std::string(format.reasoning.close),
      .begins_passage = reading.begins_reasoning,
      .has_space = IsJson(rules.form) || rules.form == Form::kParameters,
      .close = std::string(format.call.close),
      .repeats = rules.may_repeat && !has_list && rules.form != Form::kBare,
      .outer_open = std::string(format.all_calls.open),
      .outer_close = std::string(format.all_calls.close)};
  if (rules.form == Form::kChannel) {
    // The mark that ends a call ends the reply, too.
    frame.repeats = false;
    frame.passage_close += kNextMessage;
  }
  if (IsJson(rules.form)) return frame;
  frame.spelling = SpellingOf(format);
  if (rules.form == Form::kPython) {
    frame.list = worker::FrameList{
        .open = "[", .close = "]", .repeats = rules.may_repeat};
  }
  for (const worker::Tool& tool : reading.tools) {
    if (!rules.Allows(tool)) continue;
    frame.choices.push_back(ChoiceOf(tool, rules.form));
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
    tokenizer.AppendBytes(id, worker::RenderSpecial::kYes, mark.text);
    mark.id = id;
    mark.is_free = !tokenizer.IsEnd(id);
  }
  return marks;
}

absl::Status CannotRequire(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("chat.tool_choice: a call cannot be required: ", why));
}

// Why the calls of a reply cannot be held; empty if they can.
absl::string_view WhyFree(const std::optional<worker::ReplyReading>& reading,
                          const worker::GenerateOptions& options) {
  constexpr absl::string_view kUnknown =
      "the reply is not split, or how the model writes calls is not known";
  if (!reading) return kUnknown;
  if (reading->tools.empty()) return "there are no tools";
  if (options.constraint != nullptr) return "the request has a constraint";
  if (reading->format.form == worker::CallForm::kFree) return kUnknown;
  return "";
}

}  // namespace

absl::StatusOr<worker::SchemaNotes> HoldCalls(
    const v1::ChatPrompt& chat,
    const std::optional<worker::ReplyReading>& reading,
    const ConstraintRoom& room, worker::GenerateOptions& options) {
  const bool is_required = chat.tool_choice() == v1::TOOL_CHOICE_REQUIRED;
  if (const absl::string_view why = WhyFree(reading, options); !why.empty()) {
    if (!is_required) return worker::SchemaNotes();
    return CannotRequire(why);
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
  source.frame.marks = MarksOf(options.shown_tokens, room.tokenizer);
  auto made = room.cache.Get(source, room.stop);
  worker::SchemaNotes notes;
  if (!made.ok()) {
    RETURN_IF_ERROR(room.stop());
    const absl::string_view why = made.status().message();
    if (source.frame.spelling.members) {
      // Only arguments that are listed can be written.
      if (is_required) return CannotRequire(why);
      notes.push_back(absl::StrCat("tools: calls are free: ", why));
      return notes;
    }
    notes.push_back(absl::StrCat("tools: arguments are any objects: ", why));
    source.text = CallsSchema(reading->tools, rules, /*is_any=*/true);
    made = room.cache.Get(source, room.stop);
    RETURN_IF_ERROR(made.status());
  }
  notes.insert(notes.end(), made->notes.begin(), made->notes.end());
  options.constraint = std::move(made->grammar);
  return notes;
}

}  // namespace plimsoll::services
