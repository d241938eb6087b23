// Writes the members of an object in the orders that are allowed.
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
  std::optional<GrammarBuilder::Expr> last = {};  // comes last, if it is given
  int64_t min = 0;
  int64_t max = GrammarBuilder::kUnlimited;
};

// Listed members in their order, or in any, each at most once. Others follow
// them, or stand anywhere.
// Errors: kInvalidArgument naming `path` if that needs too many states.
absl::StatusOr<GrammarBuilder::Expr> WriteObject(const ObjectMembers& members,
                                                 bool any_order,
                                                 const std::string& path,
                                                 JsonGrammar& json,
                                                 GrammarBuilder& builder);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_OBJECT_WRITER_H_
