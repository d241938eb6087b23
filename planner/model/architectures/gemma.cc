// The first Gemma: no norms after sublayers or of heads, and no window. The
// weights of norms in the file already contain Gemma's "+ 1".
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kGemma = {
    .name = "gemma",
    .models = "Gemma 1",
    .config_types = {"gemma"},
    .is_tied = true,
    .chat_format = "gemma3",
    .checkpoint = {.norms = kNormsBefore, .norms_lack_one = true},
    .activation = GateActivation::kGeluTanh,
    .rope_pairs = RopePairs::kHalves,
    .scales_embedding = true,
};

}  // namespace plimsoll::planner
