#include "worker/graph/gated_network.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

GatedNetwork::GatedNetwork(const std::string& prefix, absl::string_view suffix,
                           StepContext& context, std::optional<float> cut)
    : context_(context), cut_(cut) {
  const auto weight = [&](absl::string_view role) {
    return context.Matrix(absl::StrCat(prefix, role, suffix, ".weight"));
  };
  const auto bias = [&](absl::string_view role) {
    return FindVector(context.inputs(),
                      absl::StrCat(prefix, role, suffix, ".bias"));
  };
  up_ = weight("ffn_up");
  has_gates_ = context.Has(absl::StrCat(prefix, "ffn_gate", suffix, ".weight"));
  if (has_gates_) gate_ = weight("ffn_gate");
  down_.w = weight("ffn_down");
  gate_bias_ = bias("ffn_gate");
  up_bias_ = bias("ffn_up");
  down_.bias = bias("ffn_down");
}

absl::StatusOr<ProductInput> GatedNetwork::Gated(const ProductInput& x) {
  float* const gate = context_.Buffer(StepBuffer::kGate);
  float* const up = context_.Buffer(StepBuffer::kUp);
  const kernels::Activation activation = context_.parameters().activation;
  const int64_t dim = up_.rows;
  std::byte* const packed = context_.PackedInputs(dim);
  if (has_gates_ && gate_bias_ == nullptr && up_bias_ == nullptr && !cut_) {
    ASSIGN_OR_RETURN(const std::byte* const at,
                     context_.backend().GatedMatMul(
                         {.gate = context_.ProductOf(x, {gate_, gate}),
                          .up = context_.ProductOf(x, {up_, up}),
                          .activation = activation,
                          .packed = packed,
                          .keeps_floats = IsFloatType(down_.w.dtype)}));
    return ProductInput{gate, at};
  }
  if (has_gates_) {
    RETURN_IF_ERROR(context_.Project(x, {{gate_, gate}, {up_, up}}));
  } else {
    RETURN_IF_ERROR(context_.Project(x, {{up_, up}}));
  }
  RETURN_IF_ERROR(
      context_.AddBiases({{gate_bias_, gate, dim}, {up_bias_, up, dim}}));
  if (cut_) {
    RETURN_IF_ERROR(context_.backend().CutRows({.x = gate,
                                                .n_rows = context_.n_rows(),
                                                .dim = dim,
                                                .deviations = *cut_}));
  }
  RETURN_IF_ERROR(
      context_.backend().GatedActivation({.gate = has_gates_ ? gate : up,
                                          .up = up,
                                          .out = gate,
                                          .n_rows = context_.n_rows(),
                                          .dim = dim,
                                          .activation = activation,
                                          .packed = packed}));
  return ProductInput{gate, packed};
}

absl::Status GatedNetwork::Compute(const ProductInput& x,
                                   const ProductOutput& to) {
  ASSIGN_OR_RETURN(const ProductInput gated, Gated(x));
  RETURN_IF_ERROR(context_.Project(gated, {{down_.w, to.out, to.accumulate}}));
  return context_.AddBiases({{down_.bias, to.out, down_.w.rows}});
}

}  // namespace plimsoll::worker
