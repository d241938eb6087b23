#include "worker/text/chat/reply_splitter.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/text/chat/call_syntax.h"
#include "worker/text/mark_end.h"

namespace plimsoll::worker {
namespace {

// True if calls have JSON's strings.
bool HasStrings(CallSyntax syntax) {
  switch (syntax) {
    case CallSyntax::kJson:
    case CallSyntax::kNamedJson:
    case CallSyntax::kBareJson:
    case CallSyntax::kChannel:
    case CallSyntax::kDeepSeek:
    case CallSyntax::kKimi:
      return true;
    case CallSyntax::kNone:
    case CallSyntax::kParameters:
    case CallSyntax::kPairs:
    case CallSyntax::kPython:
    case CallSyntax::kKeywords:
      break;
  }
  return false;
}

}  // namespace

ReplySplitter::ReplySplitter(ReplyReading reading)
    : reading_(std::move(reading)),
      has_strings_(HasStrings(reading_.format.syntax)),
      call_(reading_.format.syntax) {
  const ReplyFormat& format = reading_.format;
  if (!format.reasoning.open.empty()) {
    marks_.push_back({format.reasoning.open, State::kReasoning});
  }
  const bool has_calls = !reading_.tools.empty() || format.has_undeclared_calls;
  if (!format.call.open.empty() && has_calls) {
    marks_.push_back({format.call.open, State::kCall});
  }
  for (const absl::string_view mark : format.dropped) {
    marks_.push_back({mark, State::kText});
  }
  if (reading_.begins_reasoning) {
    state_ = State::kReasoning;
    has_mark_ = true;
  }
}

void ReplySplitter::Push(absl::string_view text, ReplyDelta& delta) {
  held_.append(text.data(), text.size());
  while (Advance(delta)) {
  }
}

bool ReplySplitter::Advance(ReplyDelta& delta) {
  switch (state_) {
    case State::kText:
      return AdvanceText(delta);
    case State::kReasoning:
      return AdvanceReasoning(delta);
    case State::kCall:
      return AdvanceCall(delta);
  }
  return false;
}

bool ReplySplitter::MayBeBareCall() const {
  if (reading_.format.syntax != CallSyntax::kBareJson || has_said_ ||
      reading_.tools.empty()) {
    return false;
  }
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(held_);
  return (text.empty() || text[0] == '{' || text[0] == '[') &&
         static_cast<int64_t>(held_.size()) <= kMaxToolCallBytes;
}

bool ReplySplitter::AdvanceText(ReplyDelta& delta) {
  // The mark that comes first.
  size_t first = held_.size();
  const Mark* found = nullptr;
  size_t n_open = 0;  // bytes at the end that may become a mark
  for (const Mark& mark : marks_) {
    n_open = std::max(n_open, EndThatBegins(mark.text, held_));
    const size_t at = absl::string_view(held_).find(mark.text);
    if (at == absl::string_view::npos || at >= first) continue;
    if (mark.next == State::kReasoning) {
      const absl::string_view before = absl::string_view(held_).substr(0, at);
      if (!is_fresh_ || !absl::StripAsciiWhitespace(before).empty()) continue;
    }
    first = at;
    found = &mark;
  }
  if (found == nullptr) {
    if (MayBeBareCall()) return false;
    const size_t n = held_.size() - n_open;
    AddText(absl::string_view(held_).substr(0, n), delta);
    held_.erase(0, n);
    return false;
  }
  AddText(absl::string_view(held_).substr(0, first), delta);
  held_.erase(0, first + found->text.size());
  state_ = found->next;
  if (found->next != State::kText || !has_said_) space_.clear();
  has_mark_ = true;
  is_fresh_ = true;
  return true;
}

bool ReplySplitter::AdvanceReasoning(ReplyDelta& delta) {
  const absl::string_view close = reading_.format.reasoning.close;
  const size_t at = absl::string_view(held_).find(close);
  if (at == absl::string_view::npos) {
    const size_t n = held_.size() - EndThatBegins(close, held_);
    AddReasoning(absl::string_view(held_).substr(0, n), delta);
    held_.erase(0, n);
    return false;
  }
  AddReasoning(absl::string_view(held_).substr(0, at), delta);
  held_.erase(0, at + close.size());
  state_ = State::kText;
  space_.clear();
  is_fresh_ = true;
  return true;
}

size_t ReplySplitter::FindEndOfCall(absl::string_view mark) {
  return has_strings_ ? call_end_.Find(held_, mark)
                      : absl::string_view(held_).find(mark);
}

bool ReplySplitter::AdvanceCall(ReplyDelta& delta) {
  const absl::string_view close = reading_.format.call.close;
  const absl::string_view end =
      close.empty() ? reading_.format.call.open : close;
  constexpr auto kMost = static_cast<size_t>(kMaxToolCallBytes);
  const size_t at = FindEndOfCall(end);
  const absl::string_view held = held_;
  const bool is_closed = at != absl::string_view::npos;
  const size_t n = is_closed ? at : held.size() - EndThatBegins(end, held);
  if (n > kMost) {
    call_end_ = CallEnd();
    // It cannot become a call any more, and what follows is text.
    AddCall(held.substr(0, kMost + 1), delta);
    held_.erase(0, kMost + 1);
    state_ = State::kText;
    return true;
  }
  if (!is_closed) {
    StreamCall(held.substr(0, n), delta);
    return false;
  }
  AddCall(held.substr(0, n), delta);
  held_.erase(0, n + end.size());
  call_end_ = CallEnd();
  if (!close.empty()) state_ = State::kText;
  is_fresh_ = true;
  return true;
}

void ReplySplitter::AddText(absl::string_view text, ReplyDelta& delta) {
  // An answer does not begin with the white space behind a mark.
  if (has_mark_ && !has_said_) text = absl::StripLeadingAsciiWhitespace(text);
  const absl::string_view kept = absl::StripTrailingAsciiWhitespace(text);
  if (kept.empty()) {
    absl::StrAppend(&space_, text);
    return;
  }
  absl::StrAppend(&delta.text, space_, kept);
  space_ = std::string(text.substr(kept.size()));
  is_fresh_ = false;
  has_said_ = true;
}

void ReplySplitter::AddReasoning(absl::string_view text, ReplyDelta& delta) {
  if (is_fresh_) text = absl::StripLeadingAsciiWhitespace(text);
  const absl::string_view kept = absl::StripTrailingAsciiWhitespace(text);
  if (kept.empty()) {
    if (!is_fresh_) absl::StrAppend(&space_, text);
    return;
  }
  absl::StrAppend(&delta.reasoning, space_, kept);
  space_ = std::string(text.substr(kept.size()));
  is_fresh_ = false;
}

void ReplySplitter::StreamCall(absl::string_view text, ReplyDelta& delta) {
  call_.Push(text, n_calls_, delta.deltas);
}

void ReplySplitter::AddCall(absl::string_view text, ReplyDelta& delta) {
  StreamCall(text.substr(0, static_cast<size_t>(kMaxToolCallBytes)), delta);
  EndCall(ParseCalls(reading_.format, text, reading_.tools), text, delta);
}

void ReplySplitter::EndCall(absl::StatusOr<std::vector<ToolCall>> calls,
                            absl::string_view text, ReplyDelta& delta) {
  const CallStream ended =
      std::exchange(call_, CallStream(reading_.format.syntax));
  calls = ended.Finish(std::move(calls));
  if (calls.ok()) return AddCalls(*std::move(calls), delta);
  delta.calls.push_back({calls.status(), std::string(text)});
  ++n_calls_;
}

void ReplySplitter::AddCalls(std::vector<ToolCall> calls, ReplyDelta& delta) {
  for (ToolCall& call : calls) {
    delta.calls.push_back({std::move(call), ""});
    ++n_calls_;
  }
}

void ReplySplitter::Finish(ReplyDelta& delta) {
  // A quote without a match may have hidden the end of a call.
  if (state_ == State::kCall) {
    has_strings_ = false;
    while (Advance(delta)) {
    }
  }
  const std::string rest = std::exchange(held_, {});
  switch (state_) {
    case State::kReasoning:
      AddReasoning(rest, delta);
      return;
    case State::kCall:
      if (reading_.format.call.close.empty()) {
        AddCall(rest, delta);
      } else {
        StreamCall(rest, delta);
        EndCall(
            absl::InvalidArgumentError("the reply ended before the call did"),
            rest, delta);
      }
      return;
    case State::kText:
      break;
  }
  if (reading_.format.syntax == CallSyntax::kBareJson && !has_said_ &&
      !reading_.tools.empty()) {
    auto calls = ParseCalls(reading_.format, rest, reading_.tools);
    if (calls.ok()) return AddCalls(*std::move(calls), delta);
  }
  AddText(rest, delta);
  if (n_calls_ == 0) delta.text += std::exchange(space_, {});
}

}  // namespace plimsoll::worker
