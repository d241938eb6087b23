// The keywords of JSON schema that constrain output here, and which of them go
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

// Every function: kInvalidArgument naming `path`, which is where `schema`
// stands ("#/properties/name"), and the keyword.

// An error at `path`, or at its keyword.
absl::Status SchemaError(absl::string_view path, absl::string_view what);

// What a schema without $ref, enum and the like is made of.
enum class SchemaType {
  kObject,
  kArray,
  kString,
  kNumber,
  kInteger,
  kBoolean,
  kNull
};

// That `schema`, an object, has supported keywords only, and that those which
// decide alone ($ref, const, enum, anyOf, oneOf, allOf) stand alone, but for
// annotations and, beside const and enum, `type`.
absl::Status CheckKeywords(const SchemaJson& schema, const std::string& path);

// The types that `schema` allows: those of `type`, or without it those that its
// other keywords are about; empty = any value.
absl::StatusOr<std::vector<SchemaType>> TypesOf(const SchemaJson& schema,
                                                const std::string& path);
// Whether `value` is of one of `types`, or there are none.
bool IsOneOf(const SchemaJson& value, const std::vector<SchemaType>& types);

// A member, or null.
const SchemaJson* Member(const SchemaJson& schema, const std::string& name);
// The count at `keyword`, at most Grammar::kMaxRepeat.
absl::StatusOr<std::optional<int64_t>> CountAt(const SchemaJson& schema,
                                               const char* keyword,
                                               const std::string& path);
// The least and the greatest integer that minimum, exclusiveMinimum and so on
// allow, within [-most, most].
struct IntegerRange {
  int64_t min;
  int64_t max;
  bool is_limited;  // false without any of the keywords
};
absl::StatusOr<IntegerRange> IntegerRangeOf(const SchemaJson& schema,
                                            int64_t most,
                                            const std::string& path);

// The regular expression of a `format`, if it is one that is supported.
std::optional<std::string> FormatPattern(absl::string_view name);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_SCHEMA_KEYWORDS_H_
