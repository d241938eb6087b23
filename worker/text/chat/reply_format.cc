#include "worker/text/chat/reply_format.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "worker/text/chat/chat_segments.h"

namespace plimsoll::worker {
namespace {

// Source of both tables: the chat templates that the models' files have.
// A row belongs to templates with `sign`; rows that are more special come
// first.
struct CallRow {
  absl::string_view sign;
  MarkPair marks;
  CallSyntax syntax;
  CallForm form = CallForm::kFree;
  MarkPair all_calls = {};
  absl::string_view quote = {};
  bool has_undeclared_calls = false;
};
constexpr CallRow kCalls[] = {
    {"<|channel|>",
     {"<|channel|>commentary to=functions.", "<|call|>"},
     CallSyntax::kChannel,
     CallForm::kChannel},
    {"<function=",
     {"<tool_call>", "</tool_call>"},
     CallSyntax::kParameters,
     CallForm::kParameters},
    {"<arg_key>",
     {"<tool_call>", "</tool_call>"},
     CallSyntax::kPairs,
     CallForm::kPairs},
    {"<tool_call>",
     {"<tool_call>", "</tool_call>"},
     CallSyntax::kJson,
     CallForm::kObject},
    {"<TOOLCALL>",
     {"<TOOLCALL>", "</TOOLCALL>"},
     CallSyntax::kJson,
     CallForm::kList},
    {"<|tool_call>",
     {"<|tool_call>", "<tool_call|>"},
     CallSyntax::kKeywords,
     CallForm::kKeywords,
     /*all_calls=*/{},
     /*quote=*/"<|\"|>"},
    {kCallBegin,
     {kCallBegin, kCallEnd},
     CallSyntax::kKeywords,
     CallForm::kKeywords,
     /*all_calls=*/{},
     /*quote=*/kEscape,
     /*has_undeclared_calls=*/true},
    {"<|tool_call_start|>",
     {"<|tool_call_start|>", "<|tool_call_end|>"},
     CallSyntax::kPython,
     CallForm::kPython},
    {"<|tool_call_argument_begin|>",
     {"<|tool_call_begin|>", "<|tool_call_end|>"},
     CallSyntax::kKimi,
     CallForm::kCounted,
     {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}},
    {"<｜tool▁call▁begin｜>",
     {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"},
     CallSyntax::kDeepSeek,
     CallForm::kSeparated,
     {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}},
    {"<|START_ACTION|>",
     {"<|START_ACTION|>", "<|END_ACTION|>"},
     CallSyntax::kJson,
     CallForm::kToolList},
    {"[CALL_ID]",
     {"[TOOL_CALLS]", ""},
     CallSyntax::kNamedJson,
     CallForm::kNamedById},
    {"[ARGS]", {"[TOOL_CALLS]", ""}, CallSyntax::kNamedJson, CallForm::kNamed},
    {"[TOOL_CALLS]",
     {"[TOOL_CALLS]", ""},
     CallSyntax::kNamedJson,
     CallForm::kList},
    {"<|tool_call|>",
     {"<|tool_call|>", ""},
     CallSyntax::kJson,
     CallForm::kList},
    {"<|python_tag|>", {"", ""}, CallSyntax::kBareJson, CallForm::kBare},
};
// A template with this sign has the arguments of kSeparated in blocks.
constexpr absl::string_view kFenceSign = "```json";

struct ReasoningRow {
  absl::string_view sign;
  MarkPair marks;
  absl::string_view after = {};  // empty = line breaks, if the template has any
};
constexpr ReasoningRow kReasoning[] = {
    {"<|channel|>",
     {"<|channel|>analysis<|message|>", "<|end|>"},
     "<|start|>assistant<|channel|>final<|message|>"},
    {"<|channel>thought", {"<|channel>thought", "<channel|>"}},
    {"<|START_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>"}},
    {"<seed:think>", kThinkMarks[1]},
    {"[THINK]", kThinkMarks[2]},
    {"<think>", kThinkMarks[0]},
    {"</think>", kThinkMarks[0]},
};

struct DroppedRow {
  absl::string_view sign;
  std::vector<absl::string_view> marks;
};
const std::vector<DroppedRow>& Dropped() {
  static const auto* const rows = new std::vector<DroppedRow>{
      {"<|channel|>",
       {"<|channel|>final<|message|>", "<|channel|>commentary<|message|>",
        "<|start|>assistant", "<|end|>"}},
      {"<｜tool▁calls▁begin｜>",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}},
      {"<|tool_calls_section_begin|>",
       {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}},
      {"<|START_RESPONSE|>", {"<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
      {"<|python_tag|>", {"<|python_tag|>"}},
      {kCallBegin, {kResponseBegin}},
  };
  return *rows;
}

// The line breaks that strings of the template have behind `mark`, where they
// have most of them.
absl::string_view BreaksAfter(absl::string_view mark,
                              absl::string_view chat_template) {
  constexpr absl::string_view kLineFeed = "\\n";
  constexpr absl::string_view kBreaks = "\n\n";
  size_t most = 0;
  for (size_t at = chat_template.find(mark); at != absl::string_view::npos;
       at = chat_template.find(mark, at + mark.size())) {
    absl::string_view rest = chat_template.substr(at + mark.size());
    size_t n = 0;
    while (n < kBreaks.size() && absl::ConsumePrefix(&rest, kLineFeed)) ++n;
    most = std::max(most, n);
  }
  return kBreaks.substr(0, most);
}

}  // namespace

ReplyFormat FindReplyFormat(absl::string_view chat_template) {
  const auto has_sign = [&](const auto& row) {
    return absl::StrContains(chat_template, row.sign);
  };
  ReplyFormat format;
  const auto* const call =
      std::find_if(std::begin(kCalls), std::end(kCalls), has_sign);
  if (call != std::end(kCalls)) {
    format.call = call->marks;
    format.syntax = call->syntax;
    format.form = call->form;
    format.all_calls = call->all_calls;
    format.quote = call->quote;
    format.has_undeclared_calls = call->has_undeclared_calls;
    if (format.form == CallForm::kSeparated &&
        absl::StrContains(chat_template, kFenceSign)) {
      format.form = CallForm::kFenced;
    }
  }
  const auto* const reasoning =
      std::find_if(std::begin(kReasoning), std::end(kReasoning), has_sign);
  if (reasoning != std::end(kReasoning)) {
    format.reasoning = reasoning->marks;
    format.after_reasoning =
        reasoning->after.empty()
            ? BreaksAfter(reasoning->marks.close, chat_template)
            : reasoning->after;
  }
  const auto dropped =
      std::find_if(Dropped().begin(), Dropped().end(), has_sign);
  if (dropped != Dropped().end()) format.dropped = dropped->marks;
  return format;
}

std::vector<int32_t> TokensToShow(const ReplyFormat& format,
                                  const Tokenizer& tokenizer) {
  std::vector<absl::string_view> marks = {
      format.reasoning.open, format.reasoning.close, format.call.open,
      format.call.close,     format.all_calls.open,  format.all_calls.close,
      format.quote};
  marks.insert(marks.end(), format.dropped.begin(), format.dropped.end());
  // These stand inside of calls.
  constexpr absl::string_view kInside[] = {
      "[ARGS]",        "[CALL_ID]",      "<|tool_call_argument_begin|>",
      "<|constrain|>", "<｜tool▁sep｜>", "<|message|>"};
  if (format.syntax != CallSyntax::kNone) {
    marks.insert(marks.end(), std::begin(kInside), std::end(kInside));
  }
  std::vector<int32_t> shown;
  for (const absl::string_view mark : marks) {
    const auto ids = tokenizer.Encode(mark, ParseSpecial::kYes);
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) {
      if (tokenizer.Type(id) == TokenType::kControl) shown.push_back(id);
    }
  }
  std::sort(shown.begin(), shown.end());
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  return shown;
}

}  // namespace plimsoll::worker
