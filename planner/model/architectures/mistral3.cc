// Mistral Small 3 and Ministral 3: a Llama whose queries grow with the
// position.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kMistral3 = {
    .name = "mistral3",
    .models = "Mistral Small 3, Ministral 3",
    .config_types = {"mistral3", "ministral3"},
    .checkpoint = {.norms = kNormsBefore},
    .biases = BiasRule::kOptional,
    .growing_queries = GrowingQueries::kAll,
};

}  // namespace plimsoll::planner
