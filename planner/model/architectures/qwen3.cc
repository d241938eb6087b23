// Qwen 3: a norm over each head of queries and keys.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kQwen3 = {
    .name = "qwen3",
    .config_types = {"qwen3"},
    .has_head_norms = true,
    .rope_pairs = RopePairs::kHalves,
};

}  // namespace plimsoll::planner
