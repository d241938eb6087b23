// The compiled constraint of a reply: a JSON schema, a grammar or a regular
// expression.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_CONSTRAINT_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_CONSTRAINT_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/stop_check.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/schema_frame.h"
#include "worker/text/schema/shapes/schema_options.h"

namespace plimsoll::worker {

struct ConstraintSource {
  // The longest trigger, in bytes.
  static constexpr size_t kMaxTriggerBytes = 256;

  enum class Form { kJsonSchema, kGbnf, kRegex };
  Form form = Form::kJsonSchema;
  std::string text = {};
  SchemaOptions options = {};  // only for a JSON schema
  // The constraint begins after frame.trigger; empty = at once. Only a JSON
  // schema may use other members of the frame.
  SchemaFrame frame = {};
};

struct Constraint {
  std::shared_ptr<const Grammar> grammar;
  SchemaNotes notes;
};

// Errors: those of CompileSchema, CompileGbnf and CompileRegex;
// kInvalidArgument if the trigger is too long.
absl::StatusOr<Constraint> CompileConstraint(const ConstraintSource& source,
                                             StopCheck stop = NeverStop);

// Bytes that a grammar takes.
int64_t GrammarBytes(const Grammar& grammar);

// Keeps the most recently used compiled constraints, within a limit of bytes.
// Thread-safe.
class ConstraintCache {
 public:
  static constexpr int64_t kDefaultBytes = int64_t{4} << 20;

  explicit ConstraintCache(int64_t max_bytes = kDefaultBytes)
      : max_bytes_(max_bytes) {}

  // Returns the constraint, and compiles it if it is not kept. Calls that ask
  // for the same constraint at once may each compile it. Errors: those of
  // CompileConstraint, which are not kept.
  absl::StatusOr<Constraint> Get(const ConstraintSource& source,
                                 StopCheck stop = NeverStop);

  int64_t n_bytes() const;
  int64_t n_hits() const;

 private:
  struct Entry {
    std::string key;
    Constraint constraint;
    int64_t n_bytes;
  };

  const int64_t max_bytes_;
  mutable absl::Mutex mu_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mu_);  // most recently used first
  std::map<std::string, std::list<Entry>::iterator, std::less<>> by_key_
      ABSL_GUARDED_BY(mu_);
  int64_t n_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_hits_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_CONSTRAINT_H_
