#include "worker/text/chat/tool_reader.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/text/chat/chat_segments.h"

namespace plimsoll::worker {

std::optional<ToolMarkers> FindToolMarkers(const Tokenizer& tokenizer) {
  for (const absl::string_view text : kToolMarkers) {
    const auto id = tokenizer.Find(text);
    if (!id) return std::nullopt;
    const TokenType type = tokenizer.Type(*id);
    if (type != TokenType::kControl && type != TokenType::kUserDefined) {
      return std::nullopt;
    }
  }
  return ToolMarkers{.call_begin = *tokenizer.Find(kCallBegin),
                     .call_end = *tokenizer.Find(kCallEnd),
                     .escape = *tokenizer.Find(kEscape),
                     .response = *tokenizer.Find(kResponseBegin)};
}

std::optional<ReadToolCall> ToolReader::Push(int32_t id) {
  if (id == markers_.call_begin) {
    std::optional<ReadToolCall> broken = Finish();
    is_open_ = true;
    return broken;
  }
  if (!is_open_) return std::nullopt;
  if (id == markers_.call_end) {
    const std::string text = TakeText();
    // A call that was cut at its limit is a byte longer, and refused for that.
    return ReadToolCall{ParseToolCall(text), ReadableToolText(text)};
  }
  // A token that ends the reply is no part of a call, even if it has a text.
  if (is_too_long_ || tokenizer_->IsEnd(id)) return std::nullopt;
  if (id == markers_.escape) {
    text_ += utf8_.Finish();
    text_ += kEscapeMark;
  } else {
    std::string bytes;
    tokenizer_->AppendBytes(id, /*render_special=*/false, bytes);
    text_ += utf8_.Push(bytes);
  }
  is_too_long_ = static_cast<int64_t>(text_.size()) > kMaxToolCallBytes;
  return std::nullopt;
}

std::optional<ReadToolCall> ToolReader::Finish() {
  if (!is_open_) return std::nullopt;
  return ReadToolCall{
      absl::InvalidArgumentError("the reply ended before the call did"),
      ReadableToolText(TakeText())};
}

std::string ToolReader::TakeText() {
  text_ += utf8_.Finish();
  utf8_ = {};
  is_open_ = false;
  is_too_long_ = false;
  return std::exchange(text_, "");
}

bool ToolSilence::Covers(int32_t id) {
  if (!markers_) return false;
  if (id == markers_->call_begin) is_open_ = true;
  const bool covers = is_open_ || id == markers_->response;
  if (id == markers_->call_end) is_open_ = false;
  return covers;
}

}  // namespace plimsoll::worker
