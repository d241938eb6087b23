// Nemotron-H and Nemotron Nano 2: a layer is a Mamba 2 mixer, attention without
// rotation, or an FFN without gates.
#include "planner/model/architecture.h"
#include "planner/model/recurrent_roles.h"

namespace plimsoll::planner {

extern constexpr Architecture kNemotronH = {
    .name = "nemotron_h",
    .models = "Nemotron-H, Nemotron Nano 2",
    .config_types = {"nemotron_h"},
    .recurrent_layers = RecurrentRule::kWithoutKvHeads,
    .recurrent = MixerKind::kMamba2,
    .has_single_sublayers = true,
    .ffn = FfnKind::kPlain,
    .ffn_norm = "attn_norm.weight",
    .activation = GateActivation::kSquaredRelu,
    .rope_pairs = RopePairs::kNone,
    .layer_tensors = kMamba2Tensors,
};

}  // namespace plimsoll::planner
