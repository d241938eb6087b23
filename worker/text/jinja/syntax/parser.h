// Turns a template into its syntax tree.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_PARSER_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/jinja/syntax_tree.h"

namespace plimsoll::worker::jinja {

// Limits of a template; each has a test at it and one past it.
inline constexpr int64_t kMaxTemplateBytes = 1 << 20;
inline constexpr int kMaxSyntaxDepth = 100;  // blocks and brackets
inline constexpr int kMaxHeight = 400;       // height of an expression's tree

// Errors: kInvalidArgument naming the line: for bad syntax, for unknown filters
// and tests that jinja2 refuses too, and beyond the limits.
absl::StatusOr<Program> Parse(absl::string_view source);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_SYNTAX_PARSER_H_
