// Command R7B and Command A: attention and the FFN of a layer read the same
// norm, which subtracts the mean, and full layers do not rotate.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kCohere2 = {
    .name = "cohere2",
    .models = "Command R7B, Command A",
    .config_types = {"cohere2"},
    .is_tied = true,
    .checkpoint = {.norms = kNormBefore, .has_adjacent_pairs = true},
    .norms_subtract_means = true,
    .has_parallel_ffn = true,
    .windows = WindowRule::kPattern,
    .window_period = 4,
    .window_rope = WindowRope::kOnly,
    .multiplies_logits = true,
};

}  // namespace plimsoll::planner
