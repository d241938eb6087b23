#include "worker/graph/recurrent/delta_net_mixer.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

namespace {

// The epsilon with which queries and keys are divided by their length. No key
// says it.
constexpr float kLengthEpsilon = 1e-6f;

}  // namespace

DeltaNetMixer::DeltaNetMixer(const planner::Architecture& architecture,
                             int64_t layer, StepContext& context,
                             const StateRows& rows)
    : RecurrentMixer(layer, {.convolution = "ssm_conv1d", .output = "ssm_out"},
                     context, rows),
      order_(architecture.alternates_groups ? kernels::KeyHeadOrder::kTiled
                                            : kernels::KeyHeadOrder::kGrouped),
      qkv_(context.Matrix(Name("attn_qkv.weight"))),
      gate_(context.Matrix(Name("attn_gate.weight"))),
      decay_bias_(context.Vector(Name("ssm_dt.bias"))),
      rate_(context.Vector(Name("ssm_a"))),
      head_norm_(context.Vector(Name("ssm_norm.weight"))) {
  if (context.Has(Name("ssm_ba.weight"))) {
    both_ = context.Matrix(Name("ssm_ba.weight"));
  } else {
    decay_ = context.Matrix(Name("ssm_alpha.weight"));
    beta_ = context.Matrix(Name("ssm_beta.weight"));
  }
}

bool DeltaNetMixer::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "attn_norm.weight",  "attn_qkv.weight",  "attn_gate.weight",
      "ssm_conv1d.weight", "ssm_dt.bias",      "ssm_a",
      "ssm_ba.weight",     "ssm_alpha.weight", "ssm_beta.weight",
      "ssm_norm.weight",   "ssm_out.weight"};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status DeltaNetMixer::ProjectNumbers(const ProductInput& x, float* out,
                                           kernels::StateScanArgs& args) {
  const int64_t group = args.n_heads / args.n_key_heads;
  args.gate_stride = args.n_heads;
  args.gate_group_stride = group;
  args.beta = out;
  args.dt = out + args.n_rows * args.n_heads;
  if (both_.rows == 0) {
    return context().Project(
        x, {{beta_, out}, {decay_, out + args.n_rows * args.n_heads}});
  }
  // The heads of a key head have all of one number, then all of the other.
  args.gate_stride = both_.rows;
  args.gate_group_stride = 2 * group;
  args.dt = out + group;
  return context().Project(x, {{both_, out}});
}

absl::Status DeltaNetMixer::Mix(const ProductInput& x) {
  const planner::RecurrentShape& w = widths();
  const int64_t n_rows = context().n_rows();
  float* const qkv = context().Buffer(StepBuffer::kQuery);
  float* const gate = qkv + n_rows * qkv_.rows;
  float* const convolved = context().Buffer(StepBuffer::kHeads);
  RETURN_IF_ERROR(context().Project(x, {{qkv_, qkv}, {gate_, gate}}));
  const int64_t keys = w.n_groups * w.state_dim;
  kernels::StateScanArgs scan = {
      .q = convolved,
      .k = convolved + keys,
      .v = convolved + 2 * keys,
      .stride = w.n_channels,
      .dt_bias = decay_bias_,
      .rate = rate_,
      .q_scale = 1 / std::sqrt(static_cast<float>(w.state_dim)),
      .norm_eps = kLengthEpsilon,
      .out = context().Attended(),
      .n_rows = n_rows,
      .n_heads = w.n_heads,
      .n_key_heads = w.n_groups,
      .key_dim = w.state_dim,
      .value_dim = w.head_dim,
      .order = order_,
      .states = HeadStates()};
  RETURN_IF_ERROR(ProjectNumbers(x, gate + n_rows * gate_.rows, scan));
  RETURN_IF_ERROR(Convolve(
      {.x = qkv, .stride = w.n_channels, .has_silu = true, .out = convolved}));
  RETURN_IF_ERROR(context().backend().StateScan(scan));
  return NormAttended({.gate = gate,
                       .gate_stride = gate_.rows,
                       .weight = head_norm_,
                       .n_groups = w.n_heads,
                       .dim = w.head_dim});
}

}  // namespace plimsoll::worker
