// Qwen 2 and 2.5: biases of queries, keys and values.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kQwen2 = {
    .name = "qwen2",
    .models = "Qwen 2 and 2.5",
    .config_types = {"qwen2"},
    .checkpoint = {.norms = kNormsBefore},
    .biases = BiasRule::kQkv,
    .rope_pairs = RopePairs::kHalves,
};

}  // namespace plimsoll::planner
