// GLM 4 (0414): norms before and after each half of a layer, and gate and up in
// one tensor. The 9B has biases of queries, keys and values, the 32B has none.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kGlm4 = {
    .name = "glm4",
    .models = "GLM 4 (0414)",
    .config_types = {"glm4"},
    .checkpoint = {.norms = kGlmNorms, .has_adjacent_pairs = true},
    .ffn = FfnKind::kFusedGated,
    .has_post_norms = true,
    .biases = BiasRule::kOptional,
};

}  // namespace plimsoll::planner
