// Qwen 3: a norm over each head of queries and keys.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kQwen3 = {
    .name = "qwen3",
    .models = "Qwen 3",
    .config_types = {"qwen3"},
    .checkpoint = {.norms = kNormsBefore},
    .head_norms = HeadNorms::kEach,
    .rope_pairs = RopePairs::kHalves,
};

}  // namespace plimsoll::planner
