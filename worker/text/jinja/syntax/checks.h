// The errors, beside those of syntax, with which jinja2 refuses to compile a
// template.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_CHECKS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_CHECKS_H_

#include "absl/status/status.h"
#include "worker/text/jinja/syntax_tree.h"

namespace plimsoll::worker::jinja {

// Errors: kInvalidArgument naming the line: for unknown filters and tests that
// are not below an `if`, for `break` and `continue` outside of loops, for
// assignments to `loop` in a loop, and for blocks of one name.
absl::Status CheckProgram(const Program& program);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_CHECKS_H_
