#include "worker/graph/expert_network.h"

#include <cstddef>
#include <span>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

ExpertNetwork::ExpertNetwork(const ExpertNames& names,
                             const ExpertChoice& choice, StepContext& context)
    : context_(context),
      home_(context.HomeOf(
          absl::StrCat(names.prefix, "ffn_down", names.suffix, ".weight"))),
      router_(
          context.Matrix(absl::StrCat(names.prefix, names.router, ".weight"))),
      choice_(choice) {
  const auto experts = [&](const char* role) {
    return home_.Experts(
        absl::StrCat(names.prefix, role, names.suffix, ".weight"));
  };
  up_ = experts("ffn_up");
  // Without gates, `up` is its own gate, so its matrix is multiplied twice.
  const bool has_gates = context.Has(
      absl::StrCat(names.prefix, "ffn_gate", names.suffix, ".weight"));
  gate_ = has_gates ? experts("ffn_gate") : up_;
  down_ = experts("ffn_down");
  const auto bias = [&](const StepContext& at, absl::string_view name) {
    return FindVector(at.inputs(), absl::StrCat(names.prefix, name, ".bias"));
  };
  router_bias_ = bias(context, names.router);
  gate_bias_ = bias(home_, absl::StrCat("ffn_gate", names.suffix));
  up_bias_ = bias(home_, absl::StrCat("ffn_up", names.suffix));
  down_bias_ = bias(home_, absl::StrCat("ffn_down", names.suffix));
}

bool ExpertNetwork::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "ffn_gate_inp.weight",  "ffn_gate_exps.weight", "ffn_up_exps.weight",
      "ffn_down_exps.weight", "exp_probs_b.bias",     "ffn_gate_inp.bias",
      "ffn_gate_exps.bias",   "ffn_up_exps.bias",     "ffn_down_exps.bias"};
  return absl::c_linear_search(kTensors, tensor);
}

kernels::ExpertRows ExpertNetwork::Rows(const StepContext& at) const {
  return kernels::ExpertRowsAt(at.Bytes(StepBuffer::kRouting),
                               context_.n_rows(), router_.rows, choice_.n_used);
}

absl::Status ExpertNetwork::Route(const ProductInput& x) {
  float* const logits = context_.Buffer(StepBuffer::kRouter);
  RETURN_IF_ERROR(context_.Project(x, {{router_, logits}}));
  RETURN_IF_ERROR(context_.AddBiases({{router_bias_, logits, router_.rows}}));
  return context_.backend().RouteExperts({.logits = logits,
                                          .to = Rows(context_),
                                          .routing = choice_.routing,
                                          .choice_bias = choice_.bias});
}

absl::Status ExpertNetwork::Compute(const ProductInput& x,
                                    const ProductOutput& to) {
  if (&home_ != &context_) return ComputeOnHost(x, to);
  return ComputeAtHome(x, to);
}

absl::Status ExpertNetwork::ComputeOnHost(const ProductInput& x,
                                          const ProductOutput& to) {
  kernels::Backend& device = context_.backend();
  const int64_t n_rows = context_.n_rows();
  const int64_t bytes =
      n_rows * context_.model_dim() * static_cast<int64_t>(sizeof(float));
  // A download only reads what it copies.
  const auto on_device = [](const float* data, int64_t n_bytes) {
    return kernels::BufferView{
        reinterpret_cast<std::byte*>(const_cast<float*>(data)), n_bytes};
  };
  const auto on_host = [this](StepBuffer buffer, int64_t n_bytes) {
    return std::span(home_.Bytes(buffer), static_cast<size_t>(n_bytes));
  };
  home_.Begin(n_rows);
  const std::span<std::byte> rows = on_host(StepBuffer::kNormed, bytes);
  RETURN_IF_ERROR(device.Download(on_device(x.x, bytes), rows));
  const int64_t routing_bytes =
      kernels::ExpertRowsBytes(n_rows, router_.rows, choice_.n_used);
  RETURN_IF_ERROR(
      device.Download({context_.Bytes(StepBuffer::kRouting), routing_bytes},
                      on_host(StepBuffer::kRouting, routing_bytes)));
  float* const sums = home_.Normed();
  ASSIGN_OR_RETURN(const ProductInput input,
                   home_.AsInput(sums, context_.model_dim()));
  // The inputs have been read when their sums take their place.
  RETURN_IF_ERROR(ComputeAtHome(input, {.out = sums}));
  if (!to.accumulate) return device.Upload(rows, on_device(to.out, bytes));
  float* const added = context_.Buffer(StepBuffer::kExpertRows);
  RETURN_IF_ERROR(device.Upload(rows, on_device(added, bytes)));
  return context_.MixStreams({.x = to.out, .y = added, .out = to.out});
}

absl::Status ExpertNetwork::ComputeAtHome(const ProductInput& x,
                                          const ProductOutput& to) {
  kernels::Backend& backend = home_.backend();
  const kernels::ExpertRows rows = Rows(home_);
  float* const gated = home_.Buffer(StepBuffer::kGate);
  ASSIGN_OR_RETURN(const std::byte* const packed,
                   backend.GatedExpertMatMul(
                       {.rows = rows,
                        .gate = gate_,
                        .up = up_,
                        .x = x.x,
                        .packed = x.packed,
                        .activation = context_.parameters().activation,
                        .gathered = home_.Bytes(StepBuffer::kExpertRows),
                        .out = gated,
                        .up_out = home_.Buffer(StepBuffer::kUp),
                        .packed_out = home_.PackedInputs(gate_.first.rows),
                        .keeps_floats = IsFloatType(down_.first.dtype),
                        .gate_bias = gate_bias_,
                        .up_bias = up_bias_,
                        .weights_inputs = choice_.weights_inputs}));
  return backend.ExpertSumMatMul(
      {.rows = rows,
       .w = down_,
       .x = gated,
       .packed = packed,
       .products = home_.Buffer(StepBuffer::kExpertRows),
       .out = to.out,
       .accumulate = to.accumulate,
       .bias = down_bias_,
       .weights_outputs = !choice_.weights_inputs});
}

}  // namespace plimsoll::worker
