#include "services/cli/chat/reply_view.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::cli {

std::string ReplyView::Painted(const std::string& text) {
  if (!is_reasoning_ || text.empty()) return text;
  return Paint(style_, Color::kDim, text);
}

std::string ReplyView::Show(const ReasoningSplitter::Span& span) {
  std::string out;
  if (span.is_reasoning != is_reasoning_) {
    out = Painted(wrap_.Flush());
    is_reasoning_ = span.is_reasoning;
  }
  absl::StrAppend(&out, Painted(wrap_.Push(span.text)));
  return out;
}

std::string ReplyView::Push(absl::string_view text) {
  if (!style_.is_tty) return std::string(text);
  std::string out;
  if (std::exchange(is_before_answer_, false))
    out = Show({"\n\n", /*is_reasoning=*/true});
  for (const ReasoningSplitter::Span& span : splitter_.Push(text)) {
    absl::StrAppend(&out, Show(span));
  }
  return out;
}

std::string ReplyView::PushReasoning(absl::string_view text) {
  if (!style_.is_tty) return "";
  is_before_answer_ = true;
  return Show({std::string(text), /*is_reasoning=*/true});
}

std::string ReplyView::Finish() {
  if (!style_.is_tty) return "\n";
  std::string out;
  for (const ReasoningSplitter::Span& span : splitter_.Finish()) {
    absl::StrAppend(&out, Show(span));
  }
  absl::StrAppend(&out, Painted(wrap_.Flush()));
  if (wrap_.IsLineOpen()) absl::StrAppend(&out, "\n");
  return out;
}

}  // namespace plimsoll::cli
