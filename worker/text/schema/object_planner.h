// Plans of objects: which members, in which order. Names that are not listed
// are split by the patterns that they match.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_OBJECT_PLANNER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_OBJECT_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/text/schema/plan.h"
#include "worker/text/schema/scalar_planner.h"
#include "worker/text/schema/shapes/expander.h"
#include "worker/text/schema/shapes/pattern_pool.h"
#include "worker/text/schema/shapes/schema_options.h"
#include "worker/text/schema/shapes/shape.h"
#include "worker/text/schema/term_numbering.h"

namespace plimsoll::worker {

// The names that match the patterns `in`, a set of bits, and no others of
// `patterns`.
struct NameKind {
  const std::vector<std::vector<PatternUse>>& patterns;
  uint32_t in;

  bool Has(size_t pattern) const { return (in >> pattern & 1) != 0; }
};

// Plans what the objects of a value may hold. Not thread-safe.
class ObjectPlanner {
 public:
  // All must outlive it.
  ObjectPlanner(TermNumbering& numbers, ScalarPlanner& scalars,
                Expander& expander)
      : numbers_(numbers),
        scalars_(scalars),
        patterns_(expander.patterns()),
        expander_(expander),
        options_(expander.options()) {}

  // Adds the objects of `shape` to `plan`. Errors: kInvalidArgument naming
  // `path` and what is not supported or the exceeded limit; those of the
  // expander.
  absl::Status Add(ObjectShape shape, ValuePlan& plan, const std::string& path);

 private:
  // Adds a shape with one witness at most.
  absl::Status AddCase(const ObjectShape& one, ValuePlan& plan,
                       const std::string& path);
  // The term of a named member, with the terms of all rules about its name.
  absl::StatusOr<Term> TermOf(const ObjectShape& shape,
                              const ObjectShape::Named& named);
  absl::StatusOr<bool> IsAbout(const ObjectShape::Rule& rule,
                               const std::string& name);
  // The members whose names are not in `listed`, grouped by the rules about
  // them.
  absl::StatusOr<std::vector<ObjectPlan::Others>> OthersOf(
      const ObjectShape& shape, const std::vector<std::string>& listed,
      const ObjectShape::Witness* witness, const std::string& path);
  // Splits a shape with witnesses into shapes that have at most one, which is
  // none of the listed names.
  absl::Status SplitWitnesses(ObjectShape shape, std::vector<ObjectShape>& out);
  // The names in `among` that are of a kind and not in `listed`.
  absl::StatusOr<std::vector<StringShape>> NamesOf(
      const NameKind& kind, const std::vector<std::string>& listed,
      const std::vector<StringShape>& among, const std::string& path);
  absl::StatusOr<std::vector<StringShape>> NameShapes(const Term& term);

  TermNumbering& numbers_;
  ScalarPlanner& scalars_;
  PatternPool& patterns_;
  Expander& expander_;
  const SchemaOptions& options_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_OBJECT_PLANNER_H_
