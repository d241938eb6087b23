// Qwen 3 Next: as Qwen 3.5 with experts, but heads that share keys lie side by
// side, and one product makes both numbers of a head.
#include "planner/model/architecture.h"
#include "planner/model/recurrent_roles.h"

namespace plimsoll::planner {

namespace {

constexpr auto kQwen3nextTensors =
    JoinRoles(kDeltaNetTensors,
              std::to_array<TensorRole>({
                  {"ssm_ba.weight", When::kRecurrent, Presence::kRequired,
                   MatrixOf(Dim::kModel, Dim::kTwoStateHeads)},
              }));

}  // namespace

extern constexpr Architecture kQwen3next = {
    .name = "qwen3next",
    .models = "Qwen 3 Next",
    .config_types = {"qwen3_next"},
    .recurrent_layers = RecurrentRule::kInterval,
    .recurrent = MixerKind::kDeltaNet,
    .ffn_norm = "post_attention_norm.weight",
    .shared_expert = SharedExpert::kGated,
    .has_mtp = true,
    .head_norms = HeadNorms::kEach,
    .has_attention_gates = true,
    .rope_pairs = RopePairs::kHalves,
    .layer_tensors = kQwen3nextTensors,
};

}  // namespace plimsoll::planner
