#include "worker/text/schema/schema_grammar.h"

#include "base/status_macros.h"
#include "worker/text/grammar/grammar_source.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/schema_planner.h"
#include "worker/text/schema/schema_writer.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {

absl::StatusOr<CompiledSchema> CompileSchema(absl::string_view schema,
                                             const SchemaOptions& options,
                                             StopCheck stop,
                                             const SchemaFrame& frame) {
  RETURN_IF_ERROR(CheckSourceSize(schema));
  ASSIGN_OR_RETURN(const SchemaJson root, ReadSchemaJson(schema));
  SchemaPlanner planner(root, options, stop);
  ASSIGN_OR_RETURN(const SchemaPlan plan, planner.Make());
  ASSIGN_OR_RETURN(auto grammar, WriteSchema(plan, planner, stop, frame));
  return CompiledSchema{std::move(grammar), planner.notes()};
}

absl::StatusOr<std::shared_ptr<const Grammar>> CompileJsonSchema(
    absl::string_view schema, StopCheck stop) {
  ASSIGN_OR_RETURN(CompiledSchema compiled, CompileSchema(schema, {}, stop));
  return std::move(compiled.grammar);
}

}  // namespace plimsoll::worker
