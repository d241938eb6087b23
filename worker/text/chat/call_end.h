// Finds the end of a tool call while its text arrives.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CALL_END_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CALL_END_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "worker/text/json_strings.h"

namespace plimsoll::worker {

// Looks for a mark outside of JSON's strings, because a mark inside of a string
// is a part of an argument. It looks at each byte once.
class CallEnd {
 public:
  // `text` is the call's text so far, which only grows from call to call.
  // Returns where `mark` begins; npos if it is not there yet.
  size_t Find(absl::string_view text, absl::string_view mark);

 private:
  size_t at_ = 0;  // bytes that were looked at
  JsonStrings strings_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CALL_END_H_
