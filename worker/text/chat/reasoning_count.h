// Counts the tokens of a reply that are reasoning.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_REASONING_COUNT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_REASONING_COUNT_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/strings/string_view.h"
#include "worker/text/chat/reply_splitter.h"

namespace plimsoll::worker {

// Follows one reply token by token. A token counts if it has a byte between the
// marks of reasoning; tokens that are only part of a mark do not count. A token
// that ends with the whole closing mark counts if reasoning stands before it.
class ReasoningCount {
 public:
  explicit ReasoningCount(const ReplyReading& reading);

  // Takes the bytes of the reply's next token, which include the text of marks.
  void Push(absl::string_view bytes);
  // The tokens so far. At the end of a reply, text that might have become a
  // mark also counts as reasoning.
  int64_t n_tokens() const {
    return n_tokens_ + static_cast<int64_t>(held_.size());
  }

 private:
  ReplySplitter splitter_;
  ReplyDelta delta_;  // scratch
  int64_t n_tokens_ = 0;
  // The sizes of the newest tokens, all of whose bytes may belong to a closing
  // mark.
  std::deque<size_t> held_;
  size_t n_held_bytes_ = 0;  // the sum of held_
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_REASONING_COUNT_H_
