// Splits a reply into reasoning, answer and tool calls while it arrives.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_REPLY_SPLITTER_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_REPLY_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/chat/call_end.h"
#include "worker/text/chat/call_stream.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// The way to read the reply to a prompt.
struct ReplyReading {
  ReplyFormat format = {};
  // Without tools, calls are looked for only if format.has_undeclared_calls.
  std::vector<Tool> tools = {};
  bool begins_reasoning = false;  // the prompt ends inside of reasoning
};

// The new text, reasoning and calls in a piece of a reply.
struct ReplyDelta {
  std::string text;
  std::string reasoning;
  std::vector<ReadToolCall> calls;  // the complete ones
  // New pieces of calls that become complete in this delta or in a later one.
  std::vector<CallDelta> deltas;

  // Empties the delta, and keeps its memory.
  void Clear() {
    text.clear();
    reasoning.clear();
    calls.clear();
    deltas.clear();
  }
};

// Takes the text of one reply in any pieces: the joined deltas do not depend on
// the pieces. Text that may be the beginning of a mark is held back. Marks of
// reasoning count only at the beginning of a reply or of a part of it;
// elsewhere they are text. White space around reasoning and before a call
// belongs to the marks. A call that is invalid, or that the end cuts off, is
// reported with its text, even if pieces of the call were reported before.
class ReplySplitter {
 public:
  explicit ReplySplitter(ReplyReading reading);

  void Push(absl::string_view text, ReplyDelta& delta);
  // Adds the text that is still held back at the end.
  void Finish(ReplyDelta& delta);
  // True between the marks of reasoning.
  bool is_reasoning() const { return state_ == State::kReasoning; }
  // The number of bytes that are held back because they may be a part of a
  // mark.
  size_t n_held() const { return held_.size(); }

 private:
  enum class State { kText, kReasoning, kCall };

  struct Mark {
    absl::string_view text;
    State next;
  };

  // Processes held_ as far as possible; false if more text is needed.
  bool Advance(ReplyDelta& delta);
  bool AdvanceText(ReplyDelta& delta);
  bool AdvanceReasoning(ReplyDelta& delta);
  bool AdvanceCall(ReplyDelta& delta);
  // The end of the call at the front of held_; npos if the call has not ended
  // yet.
  size_t FindEndOfCall(absl::string_view mark);

  void AddText(absl::string_view text, ReplyDelta& delta);
  void AddReasoning(absl::string_view text, ReplyDelta& delta);
  // Adds the new pieces of the open call, whose text so far is `text`.
  void StreamCall(absl::string_view text, ReplyDelta& delta);
  // Reads `text` as a whole call.
  void AddCall(absl::string_view text, ReplyDelta& delta);
  // Ends the open call with `calls`, the result of reading its `text`.
  void EndCall(absl::StatusOr<std::vector<ToolCall>> calls,
               absl::string_view text, ReplyDelta& delta);
  void AddCalls(std::vector<ToolCall> calls, ReplyDelta& delta);
  // True while the whole reply may be a call without marks.
  bool MayBeBareCall() const;

  ReplyReading reading_;
  std::vector<Mark> marks_;  // marks that end a run of text
  State state_ = State::kText;
  std::string held_;
  CallEnd call_end_;
  bool has_strings_;       // a mark in a JSON string is no end of a call
  CallStream call_;        // the open call, or the next one
  int64_t n_calls_ = 0;    // complete calls, including calls with an error
  std::string space_;      // white space that may belong to a mark
  bool is_fresh_ = true;   // the reply, or its part, has no text yet
  bool has_said_ = false;  // some text was shown
  bool has_mark_ = false;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_REPLY_SPLITTER_H_
