// Separates a reply's reasoning, if the reply marks it, from its answer.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_REASONING_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_REASONING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// Reasoning is the text at the beginning of a reply in <think>...</think>, or
// in another known pair of marks. Marks elsewhere in a reply are text. The text
// may arrive in any pieces; text that may be part of a mark is held back.
class ReasoningSplitter {
 public:
  struct Span {
    std::string text;
    bool is_reasoning;  // the marks count as reasoning
  };

  // Returns the spans that are certain now.
  std::vector<Span> Push(absl::string_view text);
  // Returns the text that is held back at the end.
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
