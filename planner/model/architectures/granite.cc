// Granite 3: a Llama with four scales.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kGranite = {
    .name = "granite",
    .models = "Granite 3, dense",
    .config_types = {"granite"},
    .checkpoint = {.norms = kNormsBefore},
    .rope_has_switch = true,
    .has_scale_keys = true,
};

}  // namespace plimsoll::planner
