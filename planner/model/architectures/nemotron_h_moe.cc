// Nemotron 3 Nano: Nemotron-H with experts, which have no gates either.
#include "planner/model/architecture.h"
#include "planner/model/recurrent_roles.h"

namespace plimsoll::planner {

namespace {

constexpr auto kNemotronHMoeTensors = JoinRoles(kMamba2Tensors, kChoiceBias);

}  // namespace

extern constexpr Architecture kNemotronHMoe = {
    .name = "nemotron_h_moe",
    .models = "Nemotron 3 Nano",
    .config_types = {"nemotron_h_moe"},
    .recurrent_layers = RecurrentRule::kWithoutKvHeads,
    .recurrent = MixerKind::kMamba2,
    .has_single_sublayers = true,
    .ffn = FfnKind::kPlain,
    .ffn_norm = "attn_norm.weight",
    .activation = GateActivation::kSquaredRelu,
    .router_gate = RouterGate::kSigmoid,
    .shared_expert = SharedExpert::kPlain,
    .rope_pairs = RopePairs::kNone,
    .layer_tensors = kNemotronHMoeTensors,
};

}  // namespace plimsoll::planner
