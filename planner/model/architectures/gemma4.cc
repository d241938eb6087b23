// Gemma 4: two head widths, values that may be keys, a scale in each layer,
// experts beside the dense FFN, and per-layer embeddings.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

namespace {

constexpr auto kGemma4ModelTensors = std::to_array<TensorRole>({
    {"rope_freqs.weight", When::kAlways, Presence::kUsual,
     VectorOf(Dim::kRotary)},
});

constexpr auto kGemma4LayerTensors = std::to_array<TensorRole>({
    {"layer_output_scale.weight", When::kAlways, Presence::kUsual,
     VectorOf(Dim::kOne)},
    {"ffn_gate_inp.scale", When::kExperts, Presence::kRequired,
     VectorOf(Dim::kModel)},
    {"ffn_down_exps.scale", When::kExperts, Presence::kRequired,
     VectorOf(Dim::kExperts), WeightKind::kExpert},
    {"pre_ffw_norm_2.weight", When::kExperts, Presence::kRequired,
     VectorOf(Dim::kModel)},
    {"post_ffw_norm_1.weight", When::kExperts, Presence::kRequired,
     VectorOf(Dim::kModel)},
    {"post_ffw_norm_2.weight", When::kExperts, Presence::kRequired,
     VectorOf(Dim::kModel)},
});

}  // namespace

extern constexpr Architecture kGemma4 = {
    .name = "gemma4",
    .models = "Gemma 4",
    .config_types = {"gemma4", "gemma4_text"},
    .is_tied = true,
    .expert_ffn = FfnKind::kExpertsBesideGated,
    .has_post_norms = true,
    .activation = GateActivation::kGeluTanh,
    .windows = WindowRule::kPattern,
    .head_norms = HeadNorms::kEach,
    .has_value_norms = true,
    .values_may_be_keys = true,
    .score_scale = ScoreScale::kOne,
    .rope_pairs = RopePairs::kHalves,
    .window_rope = WindowRope::kOwnBase,
    .scales_embedding = true,
    .logit_cap = {"final_logit_softcapping", 30},
    .model_tensors = kGemma4ModelTensors,
    .layer_tensors = kGemma4LayerTensors,
};

}  // namespace plimsoll::planner
