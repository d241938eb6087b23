// EXAONE 4: norms after each half of a layer and of heads. The 32B has windows,
// and its full layers do not rotate; the 1.2B has neither.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kExaone4 = {
    .name = "exaone4",
    .models = "EXAONE 4",
    .config_types = {"exaone4"},
    .checkpoint = {.norms = kNormsAfter},
    .has_pre_norms = false,
    .has_post_norms = true,
    .windows = WindowRule::kPattern,
    .window_period = 4,
    .head_norms = HeadNorms::kEach,
    .rope_pairs = RopePairs::kHalves,
    .window_rope = WindowRope::kOnly,
};

}  // namespace plimsoll::planner
