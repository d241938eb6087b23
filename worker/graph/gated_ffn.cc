#include "worker/graph/gated_ffn.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

GatedFfn::GatedFfn(const planner::Architecture& architecture, int64_t layer,
                   StepContext& context)
    : context_(context) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  norm_ = context.Vector(absl::StrCat(p, architecture.ffn_norm));
  gate_ = context.Matrix(p + "ffn_gate.weight");
  up_ = context.Matrix(p + "ffn_up.weight");
  end_.w = context.Matrix(p + "ffn_down.weight");
  if (architecture.has_post_norms) {
    end_.post_norm = context.Vector(p + "post_ffw_norm.weight");
  }
}

absl::string_view GatedFfn::Missing(const planner::Architecture& architecture,
                                    const planner::LayerShape& layer) {
  if (layer.expert_ffn_dim > 0) return "experts";
  if (layer.ffn != planner::FfnKind::kGated) return "gate and up in one tensor";
  if (architecture.activation == planner::GateActivation::kClampedSwish) {
    return "clamped activations";
  }
  return "";
}

bool GatedFfn::Reads(const planner::Architecture& architecture,
                     absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"ffn_gate.weight", "ffn_up.weight",
                                            "ffn_down.weight"};
  return tensor == architecture.ffn_norm ||
         absl::c_linear_search(kTensors, tensor) ||
         (architecture.has_post_norms && tensor == "post_ffw_norm.weight");
}

absl::Status GatedFfn::Add(const StepBatch& /*batch*/) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.NormedResidual(norm_));
  float* const gate = context_.Buffer(StepBuffer::kGate);
  float* const up = context_.Buffer(StepBuffer::kUp);
  ASSIGN_OR_RETURN(const std::byte* const packed,
                   context_.backend().GatedMatMul(
                       {.gate = context_.ProductOf(x, {gate_, gate}),
                        .up = context_.ProductOf(x, {up_, up}),
                        .activation = context_.parameters().activation,
                        .packed = context_.PackedInputs(gate_.rows),
                        .keeps_floats = IsFloatType(end_.w.dtype)}));
  return context_.AddToResidual({gate, packed}, end_);
}

}  // namespace plimsoll::worker
