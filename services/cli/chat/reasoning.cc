#include "services/cli/chat/reasoning.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/mark_end.h"

namespace plimsoll::cli {
bool ReasoningSplitter::Begin() {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(held_);
  if (text.empty()) return false;
  for (const worker::MarkPair& marks : worker::kThinkMarks) {
    if (absl::StartsWith(text, marks.open)) {
      state_ = State::kReasoning;
      close_ = marks.close;
      return true;
    }
    if (absl::StartsWith(marks.open, text)) return false;
  }
  state_ = State::kAnswer;
  return true;
}

std::vector<ReasoningSplitter::Span> ReasoningSplitter::Push(
    absl::string_view text) {
  held_.append(text.data(), text.size());
  std::vector<Span> spans;
  if (state_ == State::kStart && !Begin()) return spans;
  if (state_ == State::kReasoning) {
    const size_t close = held_.find(std::string(close_));
    size_t n = held_.size() - worker::EndThatBegins(close_, held_);
    if (close != std::string::npos) {
      n = close + close_.size();
      state_ = State::kAnswer;
    }
    if (n > 0) spans.push_back({held_.substr(0, n), /*is_reasoning=*/true});
    held_.erase(0, n);
  }
  if (state_ == State::kAnswer && !held_.empty()) {
    spans.push_back({std::exchange(held_, {}), /*is_reasoning=*/false});
  }
  return spans;
}

std::vector<ReasoningSplitter::Span> ReasoningSplitter::Finish() {
  if (held_.empty()) return {};
  return {{std::exchange(held_, {}), state_ == State::kReasoning}};
}

}  // namespace plimsoll::cli
