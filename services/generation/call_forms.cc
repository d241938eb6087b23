#include "services/generation/call_forms.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/text/chat/call_syntax.h"

namespace plimsoll::services {
namespace {

using Form = worker::CallForm;

// What a channel's header may have between a tool's name and the message.
constexpr const char* kContentTypes[] = {"", " json", " <|constrain|>json"};

// JSON between marks that are text has no '<' in its strings.
worker::JsonSpelling JsonBetweenMarks() { return {.escaped = "<"}; }

// Arguments as tags around a name and its value.
struct Tags {
  const char* before_name;
  const char* after_name;
  const char* after_value;
  const char* end;  // ends a string that no schema binds
};

worker::ArgumentSpelling Tagged(const Tags& tags,
                                const std::vector<std::string>& never) {
  return {.values = JsonBetweenMarks(),
          .members = worker::MemberSpelling{
              .list = {.has_space = false,
                       .object_open = "",
                       .object_close = "",
                       .comma = ""},
              .before_name = tags.before_name,
              .after_name = tags.after_name,
              .after_value = tags.after_value,
              .after_member = "\n",
              .strings = worker::RawStrings{
                  .close = tags.after_value, .end = tags.end, .never = never}}};
}

worker::ArgumentSpelling Parameters(const std::string& close) {
  return Tagged({.before_name = "<parameter=",
                 .after_name = ">\n",
                 .after_value = "\n</parameter>",
                 .end = "</parameter>"},
                {"</function>", close});
}

worker::ArgumentSpelling Pairs(const std::string& close) {
  return Tagged({.before_name = "<arg_key>",
                 .after_name = "</arg_key>\n<arg_value>",
                 .after_value = "</arg_value>",
                 .end = "</arg_value>"},
                {close});
}

// A string has no mark of calls, even one that ends nothing: in the next prompt
// such a mark would be other tokens than in the reply.
worker::ArgumentSpelling Keywords(const worker::ReplyFormat& format) {
  const std::string quote(format.quote);
  std::vector<std::string> never = {std::string(format.call.close),
                                    std::string(format.call.open)};
  never.reserve(never.size() + format.dropped.size());
  for (const absl::string_view mark : format.dropped) never.emplace_back(mark);
  return {.values = {.has_space = false,
                     .has_bare_keys = true,
                     .raw = worker::RawStrings{.open = quote,
                                               .close = quote,
                                               .end = quote,
                                               .never = std::move(never)}}};
}

worker::ArgumentSpelling Python() {
  return {.values = {.true_word = "True",
                     .false_word = "False",
                     .null_word = "None"},
          .members = worker::MemberSpelling{
              .list = {.object_open = "(", .object_close = ")"},
              .after_name = "="}};
}

}  // namespace

bool IsList(Form form) {
  return form == Form::kList || form == Form::kToolList;
}

bool IsJson(Form form) {
  return form == Form::kObject || form == Form::kBare || IsList(form);
}

CallKeys KeysOf(Form form) {
  if (form == Form::kToolList) {
    return {
        .id = "tool_call_id", .name = "tool_name", .arguments = "parameters"};
  }
  return {.id = nullptr,
          .name = "name",
          .arguments = form == Form::kBare ? "parameters" : "arguments"};
}

worker::FrameChoice ChoiceOf(const worker::Tool& tool, Form form) {
  const std::string& name = tool.name;
  const std::vector<std::string> id;  // without texts it is one
  const std::vector<std::string> line_feed = {"\n", ""};
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
    case Form::kParameters:
      return {.before = {{absl::StrCat("<function=", name, ">")}, line_feed},
              .after = "</function>",
              .strings = worker::StringParameters(tool)};
    case Form::kPairs:
      return {.before = {{name}, line_feed},
              .strings = worker::StringParameters(tool)};
    case Form::kKeywords:
      return {.before = {{absl::StrCat("call:", name)}}};
    case Form::kPython:
      return {.before = {{name}}};
    case Form::kFree:
    case Form::kObject:
    case Form::kList:
    case Form::kToolList:
    case Form::kBare:
      break;
  }
  return {};
}

bool IsSorted(Form form) { return form == Form::kKeywords; }

worker::ArgumentSpelling SpellingOf(const worker::ReplyFormat& format) {
  const std::string close(format.call.close);
  switch (format.form) {
    case Form::kParameters:
      return Parameters(close);
    case Form::kPairs:
      return Pairs(close);
    case Form::kKeywords:
      return Keywords(format);
    case Form::kPython:
      return Python();
    case Form::kFree:
    case Form::kObject:
    case Form::kList:
    case Form::kToolList:
    case Form::kNamed:
    case Form::kNamedById:
    case Form::kChannel:
    case Form::kSeparated:
    case Form::kFenced:
    case Form::kCounted:
    case Form::kBare:
      break;
  }
  return {};
}

}  // namespace plimsoll::services
