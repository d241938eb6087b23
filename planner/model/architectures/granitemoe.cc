// Granite 3 with experts, some with one that all rows have.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kGranitemoe = {
    .name = "granitemoe",
    .models = "Granite 3 with experts",
    .config_types = {"granitemoe", "granitemoeshared"},
    .shared_expert = SharedExpert::kPlainIfGiven,
    .rope_has_switch = true,
    .has_scale_keys = true,
};

}  // namespace plimsoll::planner
