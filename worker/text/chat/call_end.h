// Finds the end of a tool call while its text arrives.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CALL_END_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CALL_END_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "worker/text/json_strings.h"

namespace plimsoll::worker {

// Looks for a mark outside of JSON strings, because a mark inside of a string
// is part of an argument. Each byte is read once.
class CallEnd {
 public:
  // `text` is the call's text so far, which only grows from call to call.
  // Returns where `mark` begins; npos if the mark has not arrived yet.
  size_t Find(absl::string_view text, absl::string_view mark);

 private:
  size_t at_ = 0;  // bytes that were read
  JsonStrings strings_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CALL_END_H_
