#include "worker/graph/recurrent/mamba2_mixer.h"

#include "absl/algorithm/container.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

Mamba2Mixer::Mamba2Mixer(int64_t layer, StepContext& context,
                         const StateRows& rows)
    : RecurrentMixer(layer, {.convolution = "ssm_conv1d", .output = "ssm_out"},
                     context, rows),
      in_(context.Matrix(Name("ssm_in.weight"))),
      step_bias_(context.Vector(Name("ssm_dt.bias"))),
      rate_(context.Vector(Name("ssm_a"))),
      skip_(context.Vector(Name("ssm_d"))),
      group_norm_(context.Vector(Name("ssm_norm.weight"))) {}

bool Mamba2Mixer::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"attn_norm.weight",
                                            "ssm_in.weight",
                                            "ssm_conv1d.weight",
                                            "ssm_conv1d.bias",
                                            "ssm_dt.bias",
                                            "ssm_a",
                                            "ssm_d",
                                            "ssm_norm.weight",
                                            "ssm_out.weight"};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status Mamba2Mixer::Mix(const ProductInput& x) {
  const planner::RecurrentShape& w = widths();
  const int64_t n_rows = context().n_rows();
  const int64_t inner = w.InnerDim();
  float* const made = context().Buffer(StepBuffer::kQuery);
  float* const convolved = context().Buffer(StepBuffer::kHeads);
  RETURN_IF_ERROR(context().Project(x, {{in_, made}}));
  RETURN_IF_ERROR(Convolve({.x = made + inner,
                            .stride = in_.rows,
                            .has_silu = true,
                            .out = convolved}));
  RETURN_IF_ERROR(context().backend().StateScan(
      {.q = convolved + inner + w.n_groups * w.state_dim,
       .k = convolved + inner,
       .v = convolved,
       .stride = w.n_channels,
       .dt = made + inner + w.n_channels,
       .gate_stride = in_.rows,
       .gate_group_stride = w.n_heads / w.n_groups,
       .dt_bias = step_bias_,
       .rate = rate_,
       .skip = skip_,
       .out = context().Attended(),
       .n_rows = n_rows,
       .n_heads = w.n_heads,
       .n_key_heads = w.n_groups,
       .key_dim = w.state_dim,
       .value_dim = w.head_dim,
       .states = HeadStates()}));
  return NormAttended({.gate = made,
                       .gate_stride = in_.rows,
                       .weight = group_norm_,
                       .has_group_weights = true,
                       .gates_first = true,
                       .n_groups = w.n_groups,
                       .dim = inner / w.n_groups});
}

}  // namespace plimsoll::worker
