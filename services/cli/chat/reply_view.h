// The view of a reply on a terminal while it streams.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_REPLY_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_REPLY_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "services/cli/chat/reasoning.h"
#include "services/cli/chat/word_wrap.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Wraps words, and dims reasoning if the style has colours. If the style is not
// for a terminal, text passes unchanged.
class ReplyView {
 public:
  ReplyView(const Style& style, int64_t width) : style_(style), wrap_(width) {}

  // Sets the present width of the window.
  void SetWidth(int64_t width) { wrap_.SetWidth(width); }

  // Returns the text that can be printed now.
  std::string Push(absl::string_view text);
  // Like Push, for reasoning that comes before the answer without marks. Such
  // reasoning is not shown if the style is not for a terminal.
  std::string PushReasoning(absl::string_view text);
  // Returns the rest, which ends the reply's last line.
  std::string Finish();

 private:
  std::string Painted(const std::string& text);
  std::string Show(const ReasoningSplitter::Span& span);

  const Style style_;
  ReasoningSplitter splitter_;
  WordWrap wrap_;
  bool is_reasoning_ = false;      // wrap_ holds reasoning
  bool is_before_answer_ = false;  // the last piece was PushReasoning's
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_REPLY_VIEW_H_
