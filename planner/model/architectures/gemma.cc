// The first Gemma: no norms after sublayers, none of heads, no window. Weights
// of norms in the file already contain the "+ 1" of Gemma.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kGemma = {
    .name = "gemma",
    .config_types = {"gemma"},
    .is_tied = true,
    .chat_format = "gemma3",
    .activation = GateActivation::kGeluTanh,
    .rope_pairs = RopePairs::kHalves,
    .scales_embedding = true,
};

}  // namespace plimsoll::planner
