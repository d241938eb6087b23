// Text of any kind up to a mark, as part of a grammar.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_TEXT_BEFORE_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_TEXT_BEFORE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/grammar/grammar_builder.h"

namespace plimsoll::worker {

// What ends a free text.
struct TextEnd {
  std::string trigger;  // not empty; its first occurrence ends the text
  // Texts that may not come before that.
  std::vector<std::string> never = {};
  bool is_needed = false;  // without the trigger there is no end
  // Whether marks that are free may stand in the text. The trigger's own may.
  bool has_marks = true;
};

// Any text up to `end.trigger`, the trigger, and then `after`. Where the
// trigger has marks, its spelling in bytes may not come before it, as whoever
// reads the reply's text could not tell them apart.
GrammarBuilder::Expr TextBefore(const TextEnd& end, GrammarBuilder::Expr after,
                                GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_TEXT_BEFORE_H_
