// Finds the parts of a JSON schema: places, names and references.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SCHEMA_INDEX_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SCHEMA_INDEX_H_

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/schema/shapes/shape.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {

// An error at `path`, or at its keyword.
absl::Status SchemaError(absl::string_view path, absl::string_view what);
// `status`, at `path` if it is an error of the schema.
absl::Status SchemaErrorAt(absl::string_view path, const absl::Status& status);
// `path` with one more step of a JSON pointer. Source: RFC 6901.
std::string SchemaStep(absl::string_view path, absl::string_view name);
// The member `name`, or null.
const SchemaJson* Member(const SchemaJson& schema, const std::string& name);

// The version of the standard that a schema names.
enum class SchemaDraft { kUnsaid, kDraft3, kDraft4, kDraft6, kDraft7, kLater };

// Knows every schema within a schema. Immutable except for Resolve; not
// thread-safe.
class SchemaIndex {
 public:
  // `root` must outlive it.
  explicit SchemaIndex(const SchemaJson& root);

  const SchemaJson& root() const { return root_; }
  SchemaDraft draft() const { return draft_; }
  // True if 1.0 is no integer (up to draft 4).
  bool IntegersArePlain() const {
    return draft_ == SchemaDraft::kDraft3 || draft_ == SchemaDraft::kDraft4;
  }
  // True if members beside $ref are ignored (up to draft 7).
  bool RefStandsAlone() const {
    return draft_ != SchemaDraft::kUnsaid && draft_ != SchemaDraft::kLater;
  }
  // The place of a schema, for messages.
  std::string PathOf(const SchemaJson* schema) const;
  // The place that a term came from, for messages.
  std::string PathOf(const Term& term) const;
  // The schema that `ref`, a member of the schema `from`, names. A dynamic one
  // may also name a $dynamicAnchor, if only one schema has it.
  // Errors: kInvalidArgument naming the place.
  absl::StatusOr<const SchemaJson*> Resolve(const SchemaJson& from,
                                            const SchemaJson& ref,
                                            bool is_dynamic);

 private:
  struct Place {
    std::string path;
    std::string base;            // the URI of its resource
    const SchemaJson* resource;  // the root of that resource
  };
  // Enters `schema` and all schemas in it.
  void Enter(const SchemaJson& schema, Place place);
  void EnterNames(const SchemaJson& schema, Place& place);
  const SchemaJson* Follow(const SchemaJson& from, absl::string_view pointer,
                           const Place& place);

  const SchemaJson& root_;
  SchemaDraft draft_;
  std::unordered_map<const SchemaJson*, Place> places_;
  std::map<std::string, const SchemaJson*, std::less<>> resources_;  // by URI
  std::map<std::string, const SchemaJson*, std::less<>> anchors_;  // "URI#name"
  std::map<std::string, int, std::less<>> n_dynamic_;  // by name of the anchor
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_SCHEMA_INDEX_H_
