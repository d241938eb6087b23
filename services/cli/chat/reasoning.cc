#include "services/cli/chat/reasoning.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace plimsoll::cli {
namespace {

struct Marks {
  absl::string_view open;
  absl::string_view close;
};

// Sources: the chat templates of DeepSeek R1, Qwen 3 and SmolLM 3; of Seed-OSS;
// of Magistral.
constexpr Marks kReasoningMarks[] = {
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
};

// The length of the longest end of `text` with which `mark` begins, shorter
// than the mark.
size_t EndThatBegins(absl::string_view mark, absl::string_view text) {
  for (size_t n = std::min(mark.size() - 1, text.size()); n > 0; --n) {
    if (absl::EndsWith(text, mark.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

bool ReasoningSplitter::Begin() {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(held_);
  if (text.empty()) return false;
  for (const Marks& marks : kReasoningMarks) {
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
    size_t n = held_.size() - EndThatBegins(close_, held_);
    if (close != std::string::npos) {
      n = close + close_.size();
      state_ = State::kAnswer;
    }
    if (n > 0) spans.push_back({held_.substr(0, n), true});
    held_.erase(0, n);
  }
  if (state_ == State::kAnswer && !held_.empty()) {
    spans.push_back({std::exchange(held_, {}), false});
  }
  return spans;
}

std::vector<ReasoningSplitter::Span> ReasoningSplitter::Finish() {
  if (held_.empty()) return {};
  return {{std::exchange(held_, {}), state_ == State::kReasoning}};
}

}  // namespace plimsoll::cli
