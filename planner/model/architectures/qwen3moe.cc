// Qwen 3 with experts.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kQwen3moe = {
    .name = "qwen3moe",
    .models = "Qwen 3 with experts",
    .config_types = {"qwen3_moe"},
    .head_norms = HeadNorms::kEach,
    .rope_pairs = RopePairs::kHalves,
};

}  // namespace plimsoll::planner
