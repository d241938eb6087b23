// Grammars as GBNF, the rule notation that users of llama.cpp know.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_GBNF_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_GBNF_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {

// Compiles the grammar of rule `root` of `text`:
//
//   root  ::= item ("," item)*     # a comment
//   item  ::= [a-z]+ | "\"" [^"\x00-\x1F]{0,8} "\"" | .
//
// A rule ends with its line, unless a parenthesis is open or the next line
// begins with `|`. Escapes are \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH and
// \UHHHHHHHH; the last three are code points.
// With a `trigger`, a text of the grammar follows it.
// Errors: kInvalidArgument naming the line and the fault, or the exceeded
// limit; those of `stop`.
absl::StatusOr<std::shared_ptr<const Grammar>> CompileGbnf(
    absl::string_view text, StopCheck stop = NeverStop,
    absl::string_view trigger = "");

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_GBNF_H_
