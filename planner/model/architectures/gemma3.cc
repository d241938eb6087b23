// Gemma 3 text models and models built on them. The weights of norms in the
// file already contain Gemma's "+ 1".
#include "planner/model/architecture.h"

namespace plimsoll::planner {
namespace {

// Configs of Gemma 3 with a part for pictures leave out what has these values.
// Source: the defaults of Hugging Face's Gemma3TextConfig.
constexpr ConfigDefault kGemma3ConfigDefaults[] = {
    {"vocab_size", 262'208},
    {"num_attention_heads", 8},
    {"num_key_value_heads", 4},
    {"head_dim", 256},
    {"max_position_embeddings", 131'072},
    {"rms_norm_eps", 1e-6},
    {"rope_theta", 1e6},
    {"rope_local_base_freq", 1e4},
    {"sliding_window", 4'096},
};

}  // namespace

extern constexpr Architecture kGemma3 = {
    .name = "gemma3",
    .models = "Gemma 3, and what is built on it",
    .config_types = {"gemma3", "gemma3_text"},
    .config_defaults = kGemma3ConfigDefaults,
    .is_tied = true,
    .chat_format = "gemma3",
    .checkpoint = {.norms = kNormsAround, .norms_lack_one = true},
    .has_post_norms = true,
    .activation = GateActivation::kGeluTanh,
    .windows = WindowRule::kPattern,
    .window_period = 6,
    .head_norms = HeadNorms::kEach,
    // The 27B model scales by model_dim / n_heads (query_pre_attn_scalar of its
    // published configuration).
    .width_scaled_layers = 62,
    .rope_pairs = RopePairs::kHalves,
    .window_rope = WindowRope::kOwnBase,
    .scales_embedding = true,
    .logit_cap = {"final_logit_softcapping"},
};

}  // namespace plimsoll::planner
