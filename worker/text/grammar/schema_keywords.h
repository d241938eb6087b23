// The JSON schema keywords that constrain output, and which of them go
// together.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_KEYWORDS_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_KEYWORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {

// Every function returns kInvalidArgument naming `path`, which is the place of
// `schema` ("#/properties/name"), and the keyword.

// An error at `path`, or at its keyword.
absl::Status SchemaError(absl::string_view path, absl::string_view what);

// The types of a schema without $ref, enum and the like.
enum class SchemaType {
  kObject,
  kArray,
  kString,
  kNumber,
  kInteger,
  kBoolean,
  kNull
};

// Checks that `schema`, an object, has supported keywords only. Those that
// decide alone ($ref, const, enum, anyOf, oneOf, allOf) must stand alone,
// except for annotations and, beside const and enum, `type`.
absl::Status CheckKeywords(const SchemaJson& schema, const std::string& path);

// The types that `schema` allows: those of `type` or, without it, those that
// its other keywords belong to. Empty = any value.
absl::StatusOr<std::vector<SchemaType>> TypesOf(const SchemaJson& schema,
                                                const std::string& path);
// True if `value` has one of `types`, or if `types` is empty.
bool IsOneOf(const SchemaJson& value, const std::vector<SchemaType>& types);

// The member `name`, or null.
const SchemaJson* Member(const SchemaJson& schema, const std::string& name);
// The count at `keyword`, at most Grammar::kMaxRepeat.
absl::StatusOr<std::optional<int64_t>> CountAt(const SchemaJson& schema,
                                               const char* keyword,
                                               const std::string& path);
// The least and the greatest integer in [-most, most] that minimum,
// exclusiveMinimum and so on allow.
struct IntegerRange {
  int64_t min;
  int64_t max;
  bool is_limited;  // false if no keyword limits it
};
absl::StatusOr<IntegerRange> IntegerRangeOf(const SchemaJson& schema,
                                            int64_t most,
                                            const std::string& path);

// The regular expression of a `format`; absent if it is not supported.
std::optional<std::string> FormatPattern(absl::string_view name);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_KEYWORDS_H_
