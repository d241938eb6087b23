#include "services/http/dialects/reply_deltas.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {

std::string PlainText(const ReplyFormat::Delta& delta) {
  std::string text = delta.text();
  for (const v1::ToolCall& call : delta.tool_calls()) text += call.text();
  return text;
}

const char* FinishWord(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_MAX_TOKENS:
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_TOOL_CALL:
      return "tool_calls";
    default:
      return "stop";
  }
}

DeltaOrder::Ordered DeltaOrder::Of(const ReplyFormat::Delta& delta) {
  Ordered ordered;
  ordered.text = delta.text();
  bool is_first = has_pieces_;
  int n_pieces = 0;
  const auto take = [&](Step step) {
    (is_first ? ordered.first : ordered.then).push_back(step);
  };
  const auto take_pieces = [&] {
    for (; n_pieces < delta.tool_call_deltas_size(); ++n_pieces) {
      const v1::ToolCallDelta& piece = delta.tool_call_deltas(n_pieces);
      if (piece.index() != n_calls_) return;
      has_pieces_ = true;
      take({.piece = &piece});
    }
  };
  for (const v1::ToolCall& call : delta.tool_calls()) {
    take_pieces();
    const bool had_pieces = std::exchange(has_pieces_, false);
    if (!had_pieces) ordered.text += call.text();
    take({.call = &call, .had_pieces = had_pieces});
    is_first = false;
    ++n_calls_;
  }
  take_pieces();
  return ordered;
}

void AppendLoadComment(int percent, std::string& events) {
  absl::StrAppend(&events, ": loading ", percent, " %\n\n");
}

void AppendNamedEvent(absl::string_view name, absl::string_view data,
                      std::string& events) {
  absl::StrAppend(&events, "event: ", name, "\ndata: ", data, "\n\n");
}

}  // namespace plimsoll::services
