// ERNIE 4.5 with experts, after dense layers. The router has a bias that only
// the choice sees.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

namespace {

constexpr auto kLayerTensors = std::to_array<TensorRole>({
    {"exp_probs_b.bias", When::kExperts, Presence::kUsual,
     VectorOf(Dim::kExperts)},
});

}  // namespace

extern constexpr Architecture kErnie45Moe = {
    .name = "ernie4_5-moe",
    .models = "ERNIE 4.5 with experts",
    .config_types = {"ernie4_5_moe"},
    .is_tied = true,
    .shared_expert = SharedExpert::kPlainIfGiven,
    .biases = BiasRule::kOptional,
    .layer_tensors = kLayerTensors,
};

}  // namespace plimsoll::planner
