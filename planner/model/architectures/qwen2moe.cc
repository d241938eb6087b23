// Qwen 1.5 and 2 with experts, and one more expert that every row has.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kQwen2moe = {
    .name = "qwen2moe",
    .models = "Qwen 1.5 and 2 with experts",
    .config_types = {"qwen2_moe"},
    .normalizes_weights = false,
    .shared_expert = SharedExpert::kGated,
    .biases = BiasRule::kQkv,
    .rope_pairs = RopePairs::kHalves,
};

}  // namespace plimsoll::planner
