// DeepSeek V2, V3 and R1, and models that are built like them. Keys and values
// are computed from one small vector of each token, and the cache keeps only
// that vector. The first few layers are dense; the others have experts.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

namespace {

constexpr TensorSlice kRow[] = {{"attn_kv_a.weight", Dim::kLatent},
                                {"attn_k_rot.weight", Dim::kRotatedKey}};

constexpr auto kDeepseek2LayerTensors = std::to_array<TensorRole>({
    {"attn_q.weight", When::kNoQueryRank, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kPlainQuery)},
    {"attn_q_a.weight", When::kQueryRank, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kQueryRank)},
    {"attn_q_a_norm.weight", When::kQueryRank, Presence::kRequired,
     VectorOf(Dim::kQueryRank)},
    {"attn_q_b.weight", When::kQueryRank, Presence::kRequired,
     MatrixOf(Dim::kQueryRank, Dim::kPlainQuery)},
    {"attn_kv_a_mqa.weight", When::kAlways, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kHead), WeightKind::kDense, kRow},
    {"attn_kv_a_norm.weight", When::kAlways, Presence::kRequired,
     VectorOf(Dim::kLatent)},
    {"attn_k_b.weight",
     When::kAlways,
     Presence::kRequired,
     {Dim::kPlainKey, Dim::kLatent, Dim::kHeads}},
    {"attn_v_b.weight",
     When::kAlways,
     Presence::kRequired,
     {Dim::kLatent, Dim::kValueHead, Dim::kHeads}},
    {"exp_probs_b.bias", When::kExperts, Presence::kOptional,
     VectorOf(Dim::kExperts)},
});

}  // namespace

extern constexpr Architecture kDeepseek2 = {
    .name = "deepseek2",
    .models = "DeepSeek V2, V3 and R1, Kimi K2",
    .config_types = {"deepseek_v2", "deepseek_v3", "kimi_k2"},
    .mixer = MixerKind::kLatentAttention,
    .router_gate = RouterGate::kByBias,
    .normalizes_weights = false,
    .shared_expert = SharedExpert::kPlain,
    .has_mtp = true,
    .yarn_scales_scores = true,
    .layer_tensors = kDeepseek2LayerTensors,
};

}  // namespace plimsoll::planner
