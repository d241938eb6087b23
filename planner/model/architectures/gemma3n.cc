// Gemma 3n: several residual streams, a low-rank branch beside attention,
// gates of which few are left, layers that share keys and values, per-layer
// embeddings.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

namespace {

constexpr auto kGemma3nModelTensors = std::to_array<TensorRole>({
    {"altup_proj.weight",
     When::kAlways,
     Presence::kRequired,
     {Dim::kModel, Dim::kModel, Dim::kOtherStreams}},
    {"altup_unembd_proj.weight",
     When::kAlways,
     Presence::kRequired,
     {Dim::kModel, Dim::kModel, Dim::kOtherStreams}},
});

constexpr auto kGemma3nLayerTensors = std::to_array<TensorRole>({
    {"altup_correct_coef.weight", When::kAlways, Presence::kRequired,
     MatrixOf(Dim::kStreams, Dim::kStreams)},
    {"altup_correct_scale.weight", When::kAlways, Presence::kRequired,
     VectorOf(Dim::kModel)},
    {"altup_predict_coef.weight", When::kAlways, Presence::kRequired,
     MatrixOf(Dim::kStreams, Dim::kStreamPairs)},
    {"altup_router.weight", When::kAlways, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kStreams)},
    {"altup_router_norm.weight", When::kAlways, Presence::kRequired,
     VectorOf(Dim::kModel)},
    {"laurel_l.weight", When::kAlways, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kBranch)},
    {"laurel_r.weight", When::kAlways, Presence::kRequired,
     MatrixOf(Dim::kBranch, Dim::kModel)},
    {"laurel_post_norm.weight", When::kAlways, Presence::kRequired,
     VectorOf(Dim::kModel)},
});

}  // namespace

extern constexpr Architecture kGemma3n = {
    .name = "gemma3n",
    .models = "Gemma 3n",
    .config_types = {"gemma3n", "gemma3n_text"},
    .is_tied = true,
    .has_post_norms = true,
    .activation = GateActivation::kGeluTanh,
    .windows = WindowRule::kPattern,
    .window_period = 5,
    .head_norms = HeadNorms::kEach,
    .has_value_norms = true,
    .score_scale = ScoreScale::kOne,
    .rope_pairs = RopePairs::kHalves,
    .window_rope = WindowRope::kOwnBase,
    .scales_embedding = true,
    .logit_cap = {"final_logit_softcapping", 30},
    .has_altup = true,
    .has_low_rank_branch = true,
    .cuts_gates = true,
    .model_tensors = kGemma3nModelTensors,
    .layer_tensors = kGemma3nLayerTensors,
};

}  // namespace plimsoll::planner
