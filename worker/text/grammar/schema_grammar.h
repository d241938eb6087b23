// JSON schemas as grammars.
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
// Properties of one object, schemas in one anyOf or oneOf: a text may be at all
// of them at once, so they are fewer than GrammarState::kMaxReadings.
inline constexpr size_t kMaxSchemaMembers = 2'000;

// A grammar whose every text is JSON that `schema` (JSON text) accepts, in the
// spelling of JsonGrammar and with properties in the order given. It is
// narrower than the schema: properties that are not listed are left out unless
// additionalProperties allows them, and docs/structured_output.md has the rest.
// Errors: kInvalidArgument naming the place in the schema ("#/properties/x")
// and the keyword that is not supported, the limit that was passed, or why
// nothing could ever be valid (a $ref that leads back to itself); what `stop`
// says.
absl::StatusOr<std::shared_ptr<const Grammar>> CompileJsonSchema(
    absl::string_view schema, StopCheck stop = NeverStop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_GRAMMAR_H_
