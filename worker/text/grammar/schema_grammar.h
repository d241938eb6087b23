// Compiles JSON schemas to grammars.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_GRAMMAR_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_GRAMMAR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"

namespace plimsoll::worker {

// Longest name of a property, in bytes.
inline constexpr size_t kMaxPropertyBytes = 1'024;
// Most properties of one object, and most schemas of one anyOf or oneOf. A text
// may stand at all of them at once, so there are fewer than
// GrammarState::kMaxReadings.
inline constexpr size_t kMaxSchemaMembers = 2'000;

// Compiles a grammar whose every text is JSON that `schema` (JSON text)
// accepts, in the spelling of JsonGrammar and with properties in the schema's
// order. It is narrower than the schema: properties that are not listed are
// left out unless additionalProperties allows them. docs/structured_output.md
// has the other differences.
// Errors: kInvalidArgument naming the place in the schema ("#/properties/x")
// and the keyword that is not supported, the limit that was passed, or why no
// text could ever be valid (a $ref that leads back to itself); those of `stop`.
absl::StatusOr<std::shared_ptr<const Grammar>> CompileJsonSchema(
    absl::string_view schema, StopCheck stop = NeverStop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_GRAMMAR_H_
