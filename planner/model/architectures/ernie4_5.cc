// ERNIE 4.5 without experts: a Llama, perhaps with biases.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kErnie45 = {
    .name = "ernie4_5",
    .models = "ERNIE 4.5, dense",
    .config_types = {"ernie4_5"},
    .is_tied = true,
    .checkpoint = {.norms = kNormsBefore, .has_adjacent_pairs = true},
    .biases = BiasRule::kOptional,
};

}  // namespace plimsoll::planner
