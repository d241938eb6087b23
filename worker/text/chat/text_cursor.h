// Reads a call from the front of its text.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TEXT_CURSOR_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TEXT_CURSOR_H_

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// A cursor that the readers of calls share.
class TextCursor {
 protected:
  explicit TextCursor(absl::string_view text) : rest_(text) {}

  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  // Takes `c`, and white space behind it; returns false if the rest does not
  // begin with `c`.
  bool Take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    SkipSpace();
    return true;
  }

  absl::string_view rest_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TEXT_CURSOR_H_
