// Phi 3, 3.5 and 4: queries, keys and values in one tensor, gate and up in
// another, and factors of rotation for short and for long contexts.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

namespace {

constexpr auto kPhi3ModelTensors = std::to_array<TensorRole>({
    {"rope_factors_long.weight", When::kAlways, Presence::kOptional,
     VectorOf(Dim::kRotary)},
    {"rope_factors_short.weight", When::kAlways, Presence::kOptional,
     VectorOf(Dim::kRotary)},
});

}  // namespace

extern constexpr Architecture kPhi3 = {
    .name = "phi3",
    .models = "Phi 3, 3.5 and 4",
    .config_types = {"phi3"},
    .checkpoint = {.norms = kNormsBefore},
    .ffn = FfnKind::kFusedGated,
    .windows = WindowRule::kAll,
    .is_qkv_fused = true,
    .rope_pairs = RopePairs::kHalves,
    .model_tensors = kPhi3ModelTensors,
};

}  // namespace plimsoll::planner
