// Options for reading a JSON schema, and notes about it.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SCHEMA_OPTIONS_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SCHEMA_OPTIONS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::worker {

// Longest name of a property, in bytes.
inline constexpr size_t kMaxPropertyBytes = 1'024;
// Most properties of one object, and most schemas of one anyOf or oneOf. A text
// may stand at all of them at once, so there are fewer than
// GrammarState::kMaxReadings.
inline constexpr size_t kMaxSchemaMembers = 2'000;

struct SchemaOptions {
  // Objects have only the listed properties, unless the schema says otherwise.
  // Without it, absent additionalProperties means true.
  bool closed_objects = false;
  // Listed properties come in any order, instead of the schema's.
  bool any_order = false;
  // Strings and numbers have every spelling of JSON, instead of one.
  bool any_spelling = false;
  // Unknown keywords and formats are refused instead of noted.
  bool refuse_unknown = false;
  // Formats do not restrict values.
  bool ignore_formats = false;
};

// The parts of a schema that the compiler treated as annotations, each as
// "#/properties/x: ...".
using SchemaNotes = std::vector<std::string>;
inline constexpr size_t kMaxSchemaNotes = 16;

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SCHEMA_OPTIONS_H_
