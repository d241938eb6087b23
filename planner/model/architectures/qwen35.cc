// Qwen 3.5: gated delta nets, and attention with gates in every fourth layer.
// Positions of text are equal in all sections of its rotation.
#include "planner/model/architecture.h"
#include "planner/model/recurrent_roles.h"

namespace plimsoll::planner {

extern constexpr Architecture kQwen35 = {
    .name = "qwen35",
    .models = "Qwen 3.5 and 3.6, dense",
    .config_types = {"qwen3_5", "qwen3_5_text"},
    .recurrent_layers = RecurrentRule::kInterval,
    .recurrent = MixerKind::kDeltaNet,
    .alternates_groups = true,
    .ffn_norm = "post_attention_norm.weight",
    .has_mtp = true,
    .head_norms = HeadNorms::kEach,
    .has_attention_gates = true,
    .rope_pairs = RopePairs::kHalves,
    .layer_tensors = kQwen35Tensors,
};

}  // namespace plimsoll::planner
