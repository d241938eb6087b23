// OLMo 2, whose norms come after each half of a layer and not before it, and
// OLMo 3, which has windows too.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kOlmo2 = {
    .name = "olmo2",
    .models = "OLMo 2 and 3",
    .config_types = {"olmo2", "olmo3"},
    .checkpoint = {.norms = kNormsAfter},
    .has_pre_norms = false,
    .has_post_norms = true,
    .windows = WindowRule::kPattern,
    .window_period = 4,
    .head_norms = HeadNorms::kTogether,
    .rope_pairs = RopePairs::kHalves,
    .window_rope = WindowRope::kUnscaled,
};

}  // namespace plimsoll::planner
