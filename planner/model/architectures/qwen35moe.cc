// Qwen 3.5 with experts.
#include "planner/model/architecture.h"
#include "planner/model/recurrent_roles.h"

namespace plimsoll::planner {

extern constexpr Architecture kQwen35moe = {
    .name = "qwen35moe",
    .models = "Qwen 3.5 and 3.6 with experts",
    .config_types = {"qwen3_5_moe", "qwen3_5_moe_text"},
    .recurrent_layers = RecurrentRule::kInterval,
    .recurrent = MixerKind::kDeltaNet,
    .alternates_groups = true,
    .ffn_norm = "post_attention_norm.weight",
    .shared_expert = SharedExpert::kGated,
    .has_mtp = true,
    .head_norms = HeadNorms::kEach,
    .has_attention_gates = true,
    .rope_pairs = RopePairs::kHalves,
    .layer_tensors = kQwen35Tensors,
};

}  // namespace plimsoll::planner
