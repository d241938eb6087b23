// Finds the tool calls in a reply by the ids of its tokens.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TOOL_READER_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TOOL_READER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/text/chat/tool_call.h"
#include "worker/text/tokenizer/tokenizer.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {

// Ids of the tokens around FunctionGemma's calls.
struct ToolMarkers {
  int32_t call_begin;
  int32_t call_end;
  int32_t escape;
  int32_t response;           // the model waits for the responses to its calls
  bool is_call_open = false;  // the prompt ends with call_begin
};

// Finds the markers by their texts; absent unless all markers of the format
// exist.
std::optional<ToolMarkers> FindToolMarkers(const Tokenizer& tokenizer);

// A call as the reader found it.
struct ReadToolCall {
  absl::StatusOr<ToolCall> call;  // an error if it is no valid call
  std::string text;               // the model's own text
};

// Takes a reply token by token. It keeps one call's text, at most
// kMaxToolCallBytes.
class ToolReader {
 public:
  // The tokenizer must outlive it.
  ToolReader(const Tokenizer& tokenizer, const ToolMarkers& markers)
      : tokenizer_(&tokenizer),
        markers_(markers),
        is_open_(markers.is_call_open) {}

  // Returns the call that `id` completes, or breaks off because another begins.
  std::optional<ReadToolCall> Push(int32_t id);
  // Returns the call that the end of the reply cut off.
  std::optional<ReadToolCall> Finish();

 private:
  std::string TakeText();

  const Tokenizer* tokenizer_;
  ToolMarkers markers_;
  bool is_open_;
  bool is_too_long_ = false;
  std::string text_;  // with kEscapeMark
  Utf8Stream utf8_;
};

// Tells which tokens of a reply are its text: those outside of calls.
class ToolSilence {
 public:
  explicit ToolSilence(const std::optional<ToolMarkers>& markers)
      : markers_(markers), is_open_(markers && markers->is_call_open) {}
  // True if `id`, the reply's next token, is a marker or a part of a call.
  bool Covers(int32_t id);

 private:
  std::optional<ToolMarkers> markers_;
  bool is_open_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TOOL_READER_H_
