// gpt-oss: attention sinks, experts, and biases everywhere.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

namespace {

constexpr auto kGptOssLayerTensors = std::to_array<TensorRole>({
    {"attn_sinks.weight", When::kAlways, Presence::kRequired,
     VectorOf(Dim::kHeads)},
});

}  // namespace

extern constexpr Architecture kGptOss = {
    .name = "gpt-oss",
    .models = "gpt-oss",
    .config_types = {"gpt_oss"},
    // It is the norm before the FFN, whatever its name says.
    .ffn_norm = "post_attention_norm.weight",
    .activation = GateActivation::kClampedSwish,
    .router_gate = RouterGate::kSoftmaxOfChosen,
    .normalizes_weights = false,  // they add up to 1
    .windows = WindowRule::kPattern,
    .window_period = 2,
    .biases = BiasRule::kAll,
    .has_sinks = true,
    .rope_pairs = RopePairs::kHalves,
    .layer_tensors = kGptOssLayerTensors,
};

}  // namespace plimsoll::planner
