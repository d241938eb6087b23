// Ends the reasoning in a reply after a number of tokens.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_REASONING_LIMIT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_REASONING_LIMIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/chat/reply_splitter.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// The settings of a request for the reasoning in its reply.
struct ReasoningLimit {
  int64_t max_tokens = 0;         // tokens between the marks; 0 = no reasoning
  ReplyReading reading = {};      // the way to find reasoning in the reply
  std::vector<int32_t> end = {};  // the tokens that end reasoning; at least one
};

// Returns the limit for a reply that is read as `reading` says. Its reasoning
// ends with the closing mark and the text that the model's template writes
// after it. Returns nothing if such a reply has no marks of reasoning.
std::optional<ReasoningLimit> LimitReasoning(const ReplyReading& reading,
                                             int64_t max_tokens,
                                             const Tokenizer& tokenizer);

// Follows one reply token by token, and tells when its reasoning must end. The
// answer depends only on the tokens of the reply.
class ReasoningGuard {
 public:
  explicit ReasoningGuard(ReasoningLimit limit);

  // Takes the reply's next token. `bytes` are its text, which includes the text
  // of marks.
  void Push(int32_t id, absl::string_view bytes);
  // The token that must come next; absent if the model decides.
  std::optional<int32_t> Next() const;
  // Notes that the token of Next() cannot be used here. The other tokens that
  // end reasoning are dropped, and from then on reasoning has no limit.
  void GiveUp();

 private:
  ReasoningLimit limit_;
  ReplySplitter splitter_;
  ReplyDelta delta_;        // scratch
  int64_t n_tokens_ = 0;    // reasoning tokens in the whole reply
  bool is_ending_ = false;  // the tokens of limit_.end are due
  // The number of tokens of limit_.end at the end of the reply so far.
  size_t n_came_ = 0;
  bool has_given_up_ = false;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_REASONING_LIMIT_H_
