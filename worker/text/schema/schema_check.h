// Checks whether texts fit the grammar of a JSON schema, in any order of
// members and in any spelling.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_CHECK_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_CHECK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/schema/shapes/schema_options.h"

namespace plimsoll::worker {

struct Verdict {
  bool is_accepted = false;
  // The number of first bytes that a fitting text could also begin with; the
  // text's size if it fits.
  size_t at = 0;
};

// Checks a whole text by the grammar, byte by byte.
Verdict CheckText(const std::shared_ptr<const Grammar>& grammar,
                  absl::string_view text);

// Rewrites a text in the grammar's form: members in the schema's order, one
// spelling, no white space. Then the grammar decides. So the check accepts
// exactly the values that a reply may have. Not thread-safe.
class SchemaCheck {
 public:
  virtual ~SchemaCheck() = default;

  // Errors: those of CompileSchema.
  static absl::StatusOr<std::unique_ptr<SchemaCheck>> Make(
      absl::string_view schema, const SchemaOptions& options,
      StopCheck stop = NeverStop);

  virtual const std::shared_ptr<const Grammar>& grammar() const = 0;
  virtual const SchemaNotes& notes() const = 0;
  virtual Verdict Check(absl::string_view text) = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SCHEMA_CHECK_H_
