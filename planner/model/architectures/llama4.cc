// Llama 4: windows that are chunks, full layers without rotation whose queries
// grow, and experts that weight their inputs. A router's choice is by sigmoids
// and not by logits, which differs only between logits that are so large that
// their sigmoids are equal.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

extern constexpr Architecture kLlama4 = {
    .name = "llama4",
    .models = "Llama 4",
    .config_types = {"llama4", "llama4_text"},
    .router_gate = RouterGate::kSigmoid,
    .normalizes_weights = false,
    .weights_inputs = true,
    .shared_expert = SharedExpert::kPlain,
    .windows = WindowRule::kPattern,
    .window_period = 4,
    .window = 8'192,
    .windows_are_chunks = true,
    .head_norms = HeadNorms::kPlain,
    .unnormed_experts = 128,
    .growing_queries = GrowingQueries::kUnrotated,
    .window_rope = WindowRope::kOnly,
};

}  // namespace plimsoll::planner
