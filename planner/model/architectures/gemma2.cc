// Gemma 2: both soft-caps, and a window in every second layer.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kGemma2 = {
    .name = "gemma2",
    .models = "Gemma 2",
    .config_types = {"gemma2"},
    .is_tied = true,
    .chat_format = "gemma3",
    .checkpoint = {.norms = kNormsAround, .norms_lack_one = true},
    .has_post_norms = true,
    .activation = GateActivation::kGeluTanh,
    .windows = WindowRule::kPattern,
    .window_period = 2,
    // The 27B model scales by model_dim / n_heads.
    .width_scaled_layers = 46,
    .score_cap = {"attn_logit_softcapping", 50},
    .rope_pairs = RopePairs::kHalves,
    .scales_embedding = true,
    .logit_cap = {"final_logit_softcapping", 30},
};

}  // namespace plimsoll::planner
