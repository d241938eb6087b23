// SmolLM 3: a Llama of which every fourth layer does not rotate.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kSmollm3 = {
    .name = "smollm3",
    .models = "SmolLM 3",
    .config_types = {"smollm3"},
    .is_tied = true,
    .checkpoint = {.norms = kNormsBefore},
    .unrotated_period = 4,
};

}  // namespace plimsoll::planner
