// Streams the arguments of a tool call while the model writes them.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CALL_STREAM_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CALL_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/chat/tool_call.h"
#include "worker/text/json_strings.h"

namespace plimsoll::worker {

// A call is streamed only if its arguments begin within this many bytes of its
// text. Otherwise it is reported when it is complete.
inline constexpr size_t kMaxCallHeadBytes = 1'024;

// A new piece of a call that is not complete yet.
struct CallDelta {
  // The place of the call among all calls of the reply, including calls with an
  // error.
  int64_t index = 0;
  std::string name = {};       // only in the call's first piece
  std::string arguments = {};  // may be empty in the call's first piece
};

// Follows the text of one call. It streams calls whose arguments are one JSON
// object behind the name. White space between the parts of that object is
// removed; all other text stays unchanged. Only the first call of a list is
// streamed. The joined pieces do not depend on how the text was cut.
class CallStream {
 public:
  explicit CallStream(CallSyntax syntax) : syntax_(syntax) {}

  // Takes all of the call's text so far, and appends its new pieces to
  // `deltas`. `index` is the index of the call.
  void Push(absl::string_view text, int64_t index,
            std::vector<CallDelta>& deltas);
  // Takes the calls that were read from the complete text. A call that was
  // streamed has the arguments of its pieces.
  // Errors: that of `calls`; kInvalidArgument if the complete text contradicts
  // the pieces that were sent.
  absl::StatusOr<std::vector<ToolCall>> Finish(
      absl::StatusOr<std::vector<ToolCall>> calls) const;

 private:
  enum class State { kHead, kArguments, kEnd };

  void FindHead(absl::string_view text);
  // Appends the arguments in `text` to arguments_.
  void TakeArguments(absl::string_view text);

  CallSyntax syntax_;
  State state_ = State::kHead;
  std::string name_;       // empty if the call is not streamed
  std::string arguments_;  // text of all pieces
  size_t n_read_ = 0;      // bytes of the text
  int depth_ = 0;          // lists and objects that are open
  JsonStrings strings_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CALL_STREAM_H_
