#include "worker/text/chat/model_template.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/chat/chat_segments.h"
#include "worker/text/jinja/json_value.h"
#include "worker/text/jinja/syntax/lexer.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

using jinja::Dict;
using jinja::Value;

using Pairs = std::vector<std::pair<absl::string_view, Value>>;

absl::StatusOr<Value> MakeDict(Pairs pairs) {
  auto dict = std::make_shared<Dict>();
  for (Pairs::value_type& pair : pairs) {
    RETURN_IF_ERROR(
        dict->Set(Value::String(pair.first), std::move(pair.second)));
  }
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

// What a user wrote. Ill-formed UTF-8 becomes U+FFFD.
Value Tainted(absl::string_view text) {
  Utf8Stream stream;
  std::string valid = stream.Push(text);
  valid += stream.Finish();
  return Value(jinja::Text(std::move(valid), /*is_tainted=*/true));
}

absl::StatusOr<Value> ParseJson(absl::string_view what,
                                absl::string_view json) {
  auto value = jinja::FromJson(json, /*is_tainted=*/true);
  if (value.ok()) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", value.status().message()));
}

absl::StatusOr<Value> FunctionOf(Pairs function) {
  ASSIGN_OR_RETURN(Value dict, MakeDict(std::move(function)));
  return MakeDict(
      {{"type", Value::String("function")}, {"function", std::move(dict)}});
}

absl::StatusOr<Value> CallsOf(const ChatMessage& message) {
  std::vector<Value> calls;
  for (const ToolCall& call : message.tool_calls) {
    ASSIGN_OR_RETURN(Value arguments,
                     ParseJson("the arguments of a tool call", call.arguments));
    ASSIGN_OR_RETURN(Value made, FunctionOf({{"name", Tainted(call.name)},
                                             {"arguments", arguments}}));
    calls.push_back(std::move(made));
  }
  return Value::MakeList(std::move(calls));
}

absl::StatusOr<Value> MessagesOf(const std::vector<ChatMessage>& messages) {
  std::vector<Value> list;
  for (const ChatMessage& message : messages) {
    Pairs pairs;
    pairs.emplace_back("role", Value::String(RoleName(message.role)));
    pairs.emplace_back("content", Tainted(message.content));
    if (!message.tool_calls.empty()) {
      ASSIGN_OR_RETURN(Value calls, CallsOf(message));
      pairs.emplace_back("tool_calls", std::move(calls));
    }
    if (!message.reasoning.empty()) {
      pairs.emplace_back("reasoning_content", Tainted(message.reasoning));
    }
    if (!message.tool_name.empty()) {
      pairs.emplace_back("name", Tainted(message.tool_name));
    }
    ASSIGN_OR_RETURN(Value dict, MakeDict(std::move(pairs)));
    list.push_back(std::move(dict));
  }
  return Value::MakeList(std::move(list));
}

absl::StatusOr<Value> ToolsOf(const std::vector<Tool>& tools) {
  std::vector<Value> list;
  for (const Tool& tool : tools) {
    Pairs pairs;
    pairs.emplace_back("name", Tainted(tool.name));
    pairs.emplace_back("description", Tainted(tool.description));
    const absl::string_view schema =
        tool.parameters.empty() ? R"({"type": "object", "properties": {}})"
                                : absl::string_view(tool.parameters);
    ASSIGN_OR_RETURN(Value parameters,
                     ParseJson("the parameters of a tool", schema));
    pairs.emplace_back("parameters", std::move(parameters));
    ASSIGN_OR_RETURN(Value made, FunctionOf(std::move(pairs)));
    list.push_back(std::move(made));
  }
  return Value::MakeList(std::move(list));
}

absl::Status SetArguments(absl::string_view json, Dict& variables) {
  if (json.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Value value, ParseJson("template_arguments", json));
  if (!value.is_dict()) {
    return absl::InvalidArgumentError("template_arguments: it is no object");
  }
  for (const auto& [name, argument] : value.dict().pairs()) {
    RETURN_IF_ERROR(variables.Set(name, argument));
  }
  return absl::OkStatus();
}

// The constant strings of a template that was parsed, each once.
absl::StatusOr<std::vector<std::string>> StringsOf(absl::string_view source) {
  ASSIGN_OR_RETURN(std::vector<jinja::Token> tokens, jinja::Tokenize(source));
  std::vector<std::string> strings;
  for (jinja::Token& token : tokens) {
    if (token.kind != jinja::TokenKind::kString) continue;
    strings.push_back(std::move(token.text));
  }
  std::sort(strings.begin(), strings.end());
  strings.erase(std::unique(strings.begin(), strings.end()), strings.end());
  return strings;
}

Value TokenText(const Tokenizer& tokenizer, int32_t id) {
  std::string text;
  tokenizer.AppendBytes(id, RenderSpecial::kYes, text);
  return Value(jinja::Text(IsValidUtf8(text) ? std::move(text) : ""));
}

// Gathers text and cuts it at control tokens.
class TemplatedEncoder {
 public:
  TemplatedEncoder(const Tokenizer& tokenizer, StopCheck stop)
      : tokenizer_(tokenizer), stop_(stop) {}

  // Content has no control tokens, but a vocabulary may have markers as
  // user-defined tokens. They are cut behind their first character.
  absl::Status Content(absl::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      text_ += text[i];
      if (text[i] == '<' && IsMarker(text.substr(i))) RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }

  absl::Status Scaffold(absl::string_view text) {
    ASSIGN_OR_RETURN(const std::vector<ScaffoldToken> tokens,
                     FindControlTokens(tokenizer_, text, stop_));
    size_t done = 0;
    for (const ScaffoldToken& token : tokens) {
      absl::StrAppend(&text_, text.substr(done, token.begin - done));
      RETURN_IF_ERROR(Flush());
      ids_.push_back(token.id);
      done = token.end;
    }
    absl::StrAppend(&text_, text.substr(done));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int32_t>> Finish() {
    RETURN_IF_ERROR(Flush());
    return std::move(ids_);
  }

 private:
  bool IsMarker(absl::string_view text) const {
    for (const absl::string_view marker : kToolMarkers) {
      if (text.substr(0, marker.size()) == marker) return true;
    }
    return false;
  }

  absl::Status Flush() {
    if (text_.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<int32_t> part,
                     tokenizer_.Encode(text_, ParseSpecial::kNo, stop_));
    ids_.insert(ids_.end(), part.begin(), part.end());
    text_.clear();
    return absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const StopCheck stop_;
  std::string text_;  // not encoded yet
  std::vector<int32_t> ids_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelTemplate>> ModelTemplate::Load(
    const planner::GgufHeader& header) {
  ASSIGN_OR_RETURN(const auto text, header.String("tokenizer.chat_template"));
  if (!text || text->empty()) return nullptr;
  auto program = jinja::Template::Parse(*text);
  if (!program.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.chat_template, ", program.status().message()));
  }
  ASSIGN_OR_RETURN(const auto eos, header.Int("tokenizer.ggml.eos_token_id"));
  std::optional<int32_t> eos_id;
  if (eos && *eos >= 0 && *eos < INT32_MAX) eos_id = static_cast<int32_t>(*eos);
  ASSIGN_OR_RETURN(std::vector<std::string> strings, StringsOf(*text));
  return std::shared_ptr<const ModelTemplate>(new ModelTemplate(
      *std::move(program), FindReplyFormat(*text), std::move(strings), eos_id));
}

absl::StatusOr<std::vector<ChatSegment>> ModelTemplate::Render(
    const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages,
    const std::vector<Tool>& tools, const TemplateInputs& inputs) const {
  RETURN_IF_ERROR(CheckChatLimits(messages, tools));
  Dict variables;
  RETURN_IF_ERROR(SetArguments(inputs.arguments, variables));
  const auto set = [&variables](absl::string_view name, Value value) {
    return variables.Set(Value::String(name), std::move(value));
  };
  ASSIGN_OR_RETURN(Value list, MessagesOf(messages));
  RETURN_IF_ERROR(set("messages", std::move(list)));
  // What transformers gives a template where there is none.
  Value described(jinja::None{});
  if (!tools.empty()) {
    ASSIGN_OR_RETURN(described, ToolsOf(tools));
  }
  RETURN_IF_ERROR(set("tools", std::move(described)));
  RETURN_IF_ERROR(set("documents", Value(jinja::None{})));
  RETURN_IF_ERROR(
      set("add_generation_prompt", Value(inputs.add_generation_prompt)));
  if (tokenizer.bos()) {
    RETURN_IF_ERROR(set("bos_token", TokenText(tokenizer, *tokenizer.bos())));
  }
  if (eos_) RETURN_IF_ERROR(set("eos_token", TokenText(tokenizer, *eos_)));
  ASSIGN_OR_RETURN(
      const jinja::Text text,
      program_.Render(variables,
                      {.now = inputs.now, .time_zone = absl::LocalTimeZone()}));
  SegmentWriter out;
  text.ForEachRun([&out](absl::string_view run, bool is_tainted) {
    if (is_tainted) {
      out.Content(run);
    } else {
      out.Scaffold(run);
    }
  });
  return out.Take();
}

absl::StatusOr<std::vector<ScaffoldToken>> FindControlTokens(
    const Tokenizer& tokenizer, absl::string_view scaffold, StopCheck stop) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                   tokenizer.Encode(scaffold, ParseSpecial::kYes, stop));
  std::vector<ScaffoldToken> tokens;
  size_t begin = 0;
  for (const int32_t id : ids) {
    if (tokenizer.Type(id) != TokenType::kControl) continue;
    std::string text;
    tokenizer.AppendBytes(id, RenderSpecial::kYes, text);
    const size_t at = scaffold.find(text, begin);
    if (at == absl::string_view::npos) continue;
    begin = at + text.size();
    tokens.push_back({at, begin, id});
  }
  return tokens;
}

absl::StatusOr<std::vector<int32_t>> EncodeTemplatedText(
    const Tokenizer& tokenizer, const std::vector<ChatSegment>& segments,
    const EncodeLimits& limits) {
  RETURN_IF_ERROR(CheckSegmentsFit(tokenizer, segments, limits));
  TemplatedEncoder encoder(tokenizer, limits.stop);
  for (const ChatSegment& segment : segments) {
    RETURN_IF_ERROR(segment.is_scaffold ? encoder.Scaffold(segment.text)
                                        : encoder.Content(segment.text));
  }
  return encoder.Finish();
}

absl::StatusOr<std::vector<int32_t>> EncodeTemplated(
    const Tokenizer& tokenizer, const std::vector<ChatSegment>& segments,
    const EncodeLimits& limits) {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                   EncodeTemplatedText(tokenizer, segments, limits));
  const bool adds_bos = tokenizer.add_bos() && tokenizer.bos();
  if (adds_bos && (ids.empty() || ids[0] != *tokenizer.bos())) {
    ids.insert(ids.begin(), *tokenizer.bos());
  }
  return ids;
}

}  // namespace plimsoll::worker
