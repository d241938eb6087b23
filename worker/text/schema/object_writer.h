// Writes the members of an object in the allowed orders.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_OBJECT_WRITER_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_OBJECT_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/grammar/json_grammar.h"

namespace plimsoll::worker {

struct ObjectMembers {
  struct Named {
    GrammarBuilder::Expr member;
    bool is_required;
  };
  std::vector<Named> named = {};
  std::optional<GrammarBuilder::Expr> other =
      {};                                         // members that are not listed
  std::optional<GrammarBuilder::Expr> last = {};  // comes last, if set
  int64_t min = 0;
  int64_t max = GrammarBuilder::kUnlimited;
  bool any_order = false;  // the listed members come in any order
};

// Writes the listed members in their order, or in any order, each at most once.
// Other members follow them, or may be anywhere.
// Errors: kInvalidArgument naming `path` if this needs too many states.
absl::StatusOr<GrammarBuilder::Expr> WriteObject(const ObjectMembers& members,
                                                 const std::string& path,
                                                 JsonGrammar& json,
                                                 GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_OBJECT_WRITER_H_
