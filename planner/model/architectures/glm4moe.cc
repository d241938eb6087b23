// GLM 4.5 to 4.7: the first layers are dense; the others have experts, and a
// bias of the router that only affects their choice. The largest models norm
// the heads.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kGlm4moe = {
    .name = "glm4moe",
    .models = "GLM 4.5 to 4.7",
    .config_types = {"glm4_moe"},
    .ffn_norm = "post_attention_norm.weight",
    .router_gate = RouterGate::kSigmoid,
    .shared_expert = SharedExpert::kPlain,
    .has_mtp = true,
    .biases = BiasRule::kQkv,
    .head_norms = HeadNorms::kEachIfPresent,
    .rope_pairs = RopePairs::kHalves,
    .layer_tensors = kChoiceBias,
};

}  // namespace plimsoll::planner
