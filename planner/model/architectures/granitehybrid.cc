// Granite 4: Mamba 2 layers, and attention without rotation in some.
#include "planner/model/architecture.h"
#include "planner/model/recurrent_roles.h"

namespace plimsoll::planner {

extern constexpr Architecture kGranitehybrid = {
    .name = "granitehybrid",
    .models = "Granite 4",
    .config_types = {"granitemoehybrid"},
    .recurrent_layers = RecurrentRule::kWithoutKvHeads,
    .recurrent = MixerKind::kMamba2,
    .shared_expert = SharedExpert::kPlainIfGiven,
    .rope_has_switch = true,
    .has_scale_keys = true,
    .layer_tensors = kMamba2Tensors,
};

}  // namespace plimsoll::planner
