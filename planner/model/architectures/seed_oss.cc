// Seed-OSS: a Llama with biases of queries, keys and values.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kSeedOss = {
    .name = "seed_oss",
    .models = "Seed-OSS",
    .config_types = {"seed_oss"},
    .checkpoint = {.norms = kSeedNorms},
    // It is the norm before the FFN, whatever its name says.
    .ffn_norm = "post_attention_norm.weight",
    .biases = BiasRule::kQkv,
    .rope_pairs = RopePairs::kHalves,
};

}  // namespace plimsoll::planner
