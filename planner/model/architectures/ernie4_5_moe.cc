// ERNIE 4.5 with experts, after dense layers. The router has a bias that only
// affects the choice of experts.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kErnie45Moe = {
    .name = "ernie4_5-moe",
    .models = "ERNIE 4.5 with experts",
    .config_types = {"ernie4_5_moe"},
    .is_tied = true,
    .shared_expert = SharedExpert::kPlainIfGiven,
    .biases = BiasRule::kOptional,
    .layer_tensors = kChoiceBias,
};

}  // namespace plimsoll::planner
