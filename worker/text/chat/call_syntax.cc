#include "worker/text/chat/call_syntax.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "worker/text/chat/python_calls.h"
#include "worker/text/json_check.h"

namespace plimsoll::worker {
namespace {

using Json = nlohmann::ordered_json;
using Calls = std::vector<ToolCall>;

constexpr absl::string_view kFence = "```";

absl::Status NoCall(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  RETURN_IF_ERROR(CheckJson(text, kMaxToolCallDepth));
  Json json = Json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                          /*allow_exceptions=*/false);
  if (json.is_discarded()) return NoCall("it is not JSON");
  return json;
}

// Takes what stands before `mark` and the mark itself off the front of `text`.
std::optional<absl::string_view> TakeUntil(absl::string_view& text,
                                           absl::string_view mark) {
  const size_t at = text.find(mark);
  if (at == absl::string_view::npos) return std::nullopt;
  const absl::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

absl::StatusOr<ToolCall> MakeCall(absl::string_view name, const Json& json) {
  name = absl::StripAsciiWhitespace(name);
  RETURN_IF_ERROR(CheckToolName(name));
  if (json.is_string()) {
    // Some models write the arguments as JSON in a string.
    ASSIGN_OR_RETURN(const Json inner,
                     ParseJson(json.get_ref<const std::string&>()));
    if (!inner.is_object()) return NoCall("the arguments are not an object");
    return ToolCall{std::string(name), Dump(inner)};
  }
  if (json.is_null()) return ToolCall{std::string(name), "{}"};
  if (!json.is_object()) return NoCall("the arguments are not an object");
  return ToolCall{std::string(name), Dump(json)};
}

absl::StatusOr<ToolCall> NamedCall(absl::string_view name,
                                   absl::string_view arguments) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(arguments));
  return MakeCall(name, json);
}

absl::StatusOr<ToolCall> CallOf(const Json& json) {
  if (!json.is_object()) return NoCall("a call is not an object");
  for (const char* name : kCallNameKeys) {
    const auto at = json.find(name);
    if (at == json.end()) continue;
    if (at->is_object()) return CallOf(*at);
    if (!at->is_string()) return NoCall("the name of a call is not a string");
    for (const char* arguments : kCallArgumentKeys) {
      const auto given = json.find(arguments);
      if (given != json.end()) {
        return MakeCall(at->get_ref<const std::string&>(), *given);
      }
    }
    return MakeCall(at->get_ref<const std::string&>(), Json());
  }
  return NoCall("a call has no name");
}

absl::StatusOr<Calls> JsonCalls(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  Calls calls;
  if (!json.is_array()) {
    ASSIGN_OR_RETURN(ToolCall call, CallOf(json));
    calls.push_back(std::move(call));
    return calls;
  }
  for (const Json& one : json) {
    ASSIGN_OR_RETURN(ToolCall call, CallOf(one));
    calls.push_back(std::move(call));
  }
  if (calls.empty()) return NoCall("the list of calls is empty");
  return calls;
}

absl::StatusOr<Calls> One(absl::StatusOr<ToolCall> call) {
  RETURN_IF_ERROR(call.status());
  Calls calls;
  calls.push_back(*std::move(call));
  return calls;
}

absl::StatusOr<Calls> HeadedCalls(CallSyntax syntax, absl::string_view text) {
  const auto head = TakeCallHead(syntax, text);
  if (!head) return NoCall("the call has no name with arguments behind it");
  if (head->is_fenced) {
    const auto inner = TakeUntil(text, kFence);
    if (!inner) return NoCall("the block with the arguments is not closed");
    text = *inner;
  }
  return One(NamedCall(head->name, text));
}

absl::StatusOr<Calls> NamedJsonCalls(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::StartsWith(text, "[") || absl::StartsWith(text, "{")) {
    return JsonCalls(text);
  }
  return HeadedCalls(CallSyntax::kNamedJson, text);
}

// The names of the parameters that are strings, of the tool `name`.
std::vector<std::string> StringsOf(absl::Span<const Tool> tools,
                                   absl::string_view name) {
  for (const Tool& tool : tools) {
    if (tool.name == name) return StringParameters(tool);
  }
  return {};
}

// The arguments of a call whose values stand without quotes.
class PlainArguments {
 public:
  PlainArguments(absl::Span<const Tool> tools, absl::string_view name)
      : name_(absl::StripAsciiWhitespace(name)),
        strings_(StringsOf(tools, name_)) {}

  absl::Status Add(absl::string_view key, absl::string_view value) {
    key = absl::StripAsciiWhitespace(key);
    if (json_.contains(std::string(key))) {
      return NoCall(absl::StrCat("'", absl::CEscape(key.substr(0, 64)),
                                 "' is named twice"));
    }
    Json& to = json_[std::string(key)];
    if (absl::c_count(strings_, key) == 0) {
      if (auto json = ParseJson(absl::StripAsciiWhitespace(value)); json.ok()) {
        to = *std::move(json);
        return absl::OkStatus();
      }
    }
    to = std::string(value);
    return absl::OkStatus();
  }
  absl::StatusOr<ToolCall> Call() const { return MakeCall(name_, json_); }

 private:
  absl::string_view name_;
  const std::vector<std::string> strings_;
  Json json_ = Json::object();
};

// Takes one line break off both ends.
absl::string_view WithoutBreaks(absl::string_view text) {
  absl::ConsumePrefix(&text, "\n");
  absl::ConsumeSuffix(&text, "\n");
  return text;
}

absl::StatusOr<Calls> ParameterCalls(absl::string_view text,
                                     absl::Span<const Tool> tools) {
  Calls calls;
  while (TakeUntil(text, "<function=")) {
    const auto name = TakeUntil(text, ">");
    auto body = name ? TakeUntil(text, "</function>") : std::nullopt;
    if (!body) return NoCall("'<function=' is not closed");
    PlainArguments arguments(tools, *name);
    while (TakeUntil(*body, "<parameter=")) {
      const auto key = TakeUntil(*body, ">");
      const auto value = key ? TakeUntil(*body, "</parameter>") : std::nullopt;
      if (!value) return NoCall("'<parameter=' is not closed");
      RETURN_IF_ERROR(arguments.Add(*key, WithoutBreaks(*value)));
    }
    ASSIGN_OR_RETURN(ToolCall call, arguments.Call());
    calls.push_back(std::move(call));
  }
  if (calls.empty()) return NoCall("there is no '<function='");
  return calls;
}

absl::StatusOr<Calls> PairCalls(absl::string_view text,
                                absl::Span<const Tool> tools) {
  const absl::string_view name = text.substr(0, text.find("<arg_key>"));
  PlainArguments arguments(tools, name);
  while (TakeUntil(text, "<arg_key>")) {
    const auto key = TakeUntil(text, "</arg_key>");
    std::optional<absl::string_view> value;
    if (key && TakeUntil(text, "<arg_value>")) {
      value = TakeUntil(text, "</arg_value>");
    }
    if (!value) return NoCall("an argument is not closed");
    RETURN_IF_ERROR(arguments.Add(*key, *value));
  }
  return One(arguments.Call());
}

absl::StatusOr<Calls> KeywordCalls(absl::string_view text,
                                   absl::string_view quote) {
  const std::string mark(1, kEscapeMark);
  return One(ParseToolCall(absl::StrReplaceAll(text, {{quote, mark}})));
}

std::optional<CallHead> TakeNamedHead(absl::string_view& text) {
  const size_t begin = text.find('{');
  if (begin == absl::string_view::npos) return std::nullopt;
  absl::string_view name = text.substr(0, begin);
  text.remove_prefix(begin);
  for (const absl::string_view mark : {"[CALL_ID]", "[ARGS]"}) {
    name = name.substr(0, name.find(mark));
  }
  return CallHead{name};
}

std::optional<CallHead> TakeChannelHead(absl::string_view& text) {
  const auto header = TakeUntil(text, "<|message|>");
  if (!header) return std::nullopt;
  return CallHead{header->substr(0, header->find_first_of(" <\n"))};
}

std::optional<CallHead> TakeDeepSeekHead(absl::string_view& text) {
  const auto name = TakeUntil(text, "<｜tool▁sep｜>");
  if (!name) return std::nullopt;
  if (absl::StripAsciiWhitespace(*name) != "function") return CallHead{*name};
  const auto inner = TakeUntil(text, absl::StrCat(kFence, "json\n"));
  if (!inner) return std::nullopt;
  return CallHead{*inner, /*is_fenced=*/true};
}

std::optional<CallHead> TakeKimiHead(absl::string_view& text) {
  const auto id = TakeUntil(text, "<|tool_call_argument_begin|>");
  if (!id) return std::nullopt;
  absl::string_view name = absl::StripAsciiWhitespace(*id);
  absl::ConsumePrefix(&name, "functions.");
  return CallHead{name.substr(0, name.rfind(':'))};
}

// True if a schema says by its type or its values that there are only strings.
bool IsStringSchema(const Json& schema) {
  if (!schema.is_object()) return false;
  const auto type = schema.find("type");
  if (type != schema.end()) return *type == "string";
  const auto values = schema.find("enum");
  return values != schema.end() && values->is_array() && !values->empty() &&
         std::all_of(values->begin(), values->end(),
                     [](const Json& value) { return value.is_string(); });
}

}  // namespace

std::vector<std::string> StringParameters(const Tool& tool) {
  std::vector<std::string> names;
  const auto json = ParseJson(tool.parameters);
  if (!json.ok() || !json->is_object()) return names;
  const auto properties = json->find("properties");
  if (properties == json->end() || !properties->is_object()) return names;
  for (const auto& [name, schema] : properties->items()) {
    if (IsStringSchema(schema)) names.push_back(name);
  }
  return names;
}

std::optional<CallHead> TakeCallHead(CallSyntax syntax,
                                     absl::string_view& text) {
  switch (syntax) {
    case CallSyntax::kNamedJson:
      return TakeNamedHead(text);
    case CallSyntax::kChannel:
      return TakeChannelHead(text);
    case CallSyntax::kDeepSeek:
      return TakeDeepSeekHead(text);
    case CallSyntax::kKimi:
      return TakeKimiHead(text);
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::vector<ToolCall>> ParseCalls(const ReplyFormat& format,
                                                 absl::string_view text,
                                                 absl::Span<const Tool> tools) {
  if (static_cast<int64_t>(text.size()) > kMaxToolCallBytes) {
    return NoCall(
        absl::StrCat("the call is longer than ", kMaxToolCallBytes, " bytes"));
  }
  switch (format.syntax) {
    case CallSyntax::kNone:
      break;
    case CallSyntax::kJson:
    case CallSyntax::kBareJson:
      return JsonCalls(absl::StripAsciiWhitespace(text));
    case CallSyntax::kNamedJson:
      return NamedJsonCalls(text);
    case CallSyntax::kParameters:
      return ParameterCalls(text, tools);
    case CallSyntax::kPairs:
      return PairCalls(text, tools);
    case CallSyntax::kPython:
      return ParsePythonCalls(text);
    case CallSyntax::kKeywords:
      return KeywordCalls(text, format.quote);
    case CallSyntax::kChannel:
    case CallSyntax::kDeepSeek:
    case CallSyntax::kKimi:
      return HeadedCalls(format.syntax, text);
  }
  return NoCall("the model's replies have no calls");
}

}  // namespace plimsoll::worker
