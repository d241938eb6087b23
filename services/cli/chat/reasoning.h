// Tells a reply's reasoning, where the reply marks it, from its answer.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_REASONING_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_REASONING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// Reasoning is what a reply begins with in <think>...</think>, or in another
// pair of marks that models have. Marks elsewhere in a reply are text. Text
// comes in any pieces; what may be part of a mark is held back.
class ReasoningSplitter {
 public:
  struct Span {
    std::string text;
    bool is_reasoning;  // the marks are
  };

  // Returns what is known of the text so far.
  std::vector<Span> Push(absl::string_view text);
  // Returns what is held back at the end.
  std::vector<Span> Finish();

 private:
  enum class State { kStart, kReasoning, kAnswer };

  // Leaves kStart, or returns false if the text may still become a mark.
  bool Begin();

  State state_ = State::kStart;
  std::string held_;
  absl::string_view close_;  // the mark that ends the reasoning
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_REASONING_H_
