// Compiles JSON schemas to grammars.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_GRAMMAR_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_GRAMMAR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/schema_frame.h"
#include "worker/text/schema/shapes/schema_options.h"

namespace plimsoll::worker {

struct CompiledSchema {
  std::shared_ptr<const Grammar> grammar;
  SchemaNotes notes;
};

// Compiles a grammar whose every text is JSON that `schema` (JSON text)
// accepts, in the spelling of JsonGrammar and with properties in the schema's
// order unless `options` say otherwise. docs/structured_output.md says where
// the grammar is narrower than the schema. `frame` has the texts around such a
// text.
// Errors: kInvalidArgument naming the place in the schema ("#/properties/x")
// and the fault, the unsupported feature, the exceeded limit, or the reason why
// no text can be valid; those of `stop`.
absl::StatusOr<CompiledSchema> CompileSchema(absl::string_view schema,
                                             const SchemaOptions& options,
                                             StopCheck stop = NeverStop,
                                             const SchemaFrame& frame = {});

// Compiles a schema without options, and drops the notes.
absl::StatusOr<std::shared_ptr<const Grammar>> CompileJsonSchema(
    absl::string_view schema, StopCheck stop = NeverStop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_GRAMMAR_H_
