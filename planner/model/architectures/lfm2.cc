// LFM2: short convolutions, and attention in some layers. The last norm has
// another name in its files.
#include "planner/model/architecture.h"

namespace plimsoll::planner {

namespace {

constexpr auto kLfm2LayerTensors = std::to_array<TensorRole>({
    {"shortconv.conv.weight", When::kRecurrent, Presence::kRequired,
     VectorsOf(Dim::kTaps, Dim::kModel)},
    {"shortconv.in_proj.weight", When::kRecurrent, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kThreeModel)},
    {"shortconv.out_proj.weight", When::kRecurrent, Presence::kRequired,
     MatrixOf(Dim::kModel, Dim::kModel)},
});

}  // namespace

extern constexpr Architecture kLfm2 = {
    .name = "lfm2",
    .models = "LFM2, dense",
    .config_types = {"lfm2"},
    .is_tied = true,
    .recurrent_layers = RecurrentRule::kWithoutKvHeads,
    .recurrent = MixerKind::kShortConv,
    .output_norm = "token_embd_norm.weight",
    .head_norms = HeadNorms::kEach,
    .rope_pairs = RopePairs::kHalves,
    .layer_tensors = kLfm2LayerTensors,
};

}  // namespace plimsoll::planner
