// Text of any kind up to a mark, as part of a grammar.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_TEXT_BEFORE_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_TEXT_BEFORE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/grammar/grammar_builder.h"

namespace plimsoll::worker {

// The end of a free text.
struct TextEnd {
  std::string trigger;  // not empty; its first occurrence ends the text
  // Texts that may not come before the trigger.
  std::vector<std::string> never = {};
  bool is_needed = false;  // the text may not end without the trigger
  // Whether free marks are allowed in the text. The trigger's own marks are
  // always allowed.
  bool has_marks = true;
};

// Any text up to `end.trigger`, the trigger, and then `after`. If the trigger
// has marks, the text before it may not spell them in bytes: a reader of the
// reply's text could not distinguish the two.
GrammarBuilder::Expr TextBefore(const TextEnd& end, GrammarBuilder::Expr after,
                                GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_TEXT_BEFORE_H_
