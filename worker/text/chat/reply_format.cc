#include "worker/text/chat/reply_format.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace plimsoll::worker {
namespace {

// Source of both tables: the chat templates that the models' files have.
// A row belongs to templates with `sign`; rows that are more special come
// first.
struct CallRow {
  absl::string_view sign;
  MarkPair marks;
  CallSyntax syntax;
};
constexpr CallRow kCalls[] = {
    {"<|channel|>",
     {"<|channel|>commentary to=functions.", "<|call|>"},
     CallSyntax::kChannel},
    {"<function=", {"<tool_call>", "</tool_call>"}, CallSyntax::kParameters},
    {"<arg_key>", {"<tool_call>", "</tool_call>"}, CallSyntax::kPairs},
    {"<tool_call>", {"<tool_call>", "</tool_call>"}, CallSyntax::kJson},
    {"<TOOLCALL>", {"<TOOLCALL>", "</TOOLCALL>"}, CallSyntax::kJson},
    {"<|tool_call>", {"<|tool_call>", "<tool_call|>"}, CallSyntax::kKeywords},
    {"<|tool_call_start|>",
     {"<|tool_call_start|>", "<|tool_call_end|>"},
     CallSyntax::kPython},
    {"<|tool_call_argument_begin|>",
     {"<|tool_call_begin|>", "<|tool_call_end|>"},
     CallSyntax::kKimi},
    {"<｜tool▁call▁begin｜>",
     {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"},
     CallSyntax::kDeepSeek},
    {"<|START_ACTION|>",
     {"<|START_ACTION|>", "<|END_ACTION|>"},
     CallSyntax::kJson},
    {"[TOOL_CALLS]", {"[TOOL_CALLS]", ""}, CallSyntax::kNamedJson},
    {"<|tool_call|>", {"<|tool_call|>", ""}, CallSyntax::kJson},
    {"<|python_tag|>", {"", ""}, CallSyntax::kBareJson},
};

struct ReasoningRow {
  absl::string_view sign;
  MarkPair marks;
};
constexpr ReasoningRow kReasoning[] = {
    {"<|channel|>", {"<|channel|>analysis<|message|>", "<|end|>"}},
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
  };
  return *rows;
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
  }
  const auto* const reasoning =
      std::find_if(std::begin(kReasoning), std::end(kReasoning), has_sign);
  if (reasoning != std::end(kReasoning)) format.reasoning = reasoning->marks;
  const auto dropped =
      std::find_if(Dropped().begin(), Dropped().end(), has_sign);
  if (dropped != Dropped().end()) format.dropped = dropped->marks;
  return format;
}

std::vector<int32_t> TokensToShow(const ReplyFormat& format,
                                  const Tokenizer& tokenizer) {
  std::vector<absl::string_view> marks = {format.reasoning.open,
                                          format.reasoning.close,
                                          format.call.open, format.call.close};
  marks.insert(marks.end(), format.dropped.begin(), format.dropped.end());
  // These stand inside of calls.
  constexpr absl::string_view kInside[] = {
      "<|\"|>",        "[ARGS]",
      "[CALL_ID]",     "<|tool_call_argument_begin|>",
      "<|constrain|>", "<｜tool▁sep｜>",
      "<|message|>"};
  if (format.syntax != CallSyntax::kNone) {
    marks.insert(marks.end(), std::begin(kInside), std::end(kInside));
  }
  std::vector<int32_t> shown;
  for (const absl::string_view mark : marks) {
    const auto ids = tokenizer.Encode(mark, /*parse_special=*/true);
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
