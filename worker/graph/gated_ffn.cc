#include "worker/graph/gated_ffn.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

GatedFfn::GatedFfn(const planner::Architecture& architecture, int64_t layer,
                   StepContext& context)
    : context_(context),
      is_parallel_(architecture.has_parallel_ffn),
      network_(absl::StrCat("blk.", layer, "."), "", context,
               context.parameters().GateCut(layer)),
      end_(network_.down()) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  if (architecture.has_pre_norms && !is_parallel_) {
    norm_ = context.Vector(absl::StrCat(p, architecture.ffn_norm));
  }
  if (architecture.has_post_norms) {
    end_.post_norm = context.Vector(p + "post_ffw_norm.weight");
  }
}

bool GatedFfn::Reads(const planner::Architecture& architecture,
                     absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"ffn_gate.weight", "ffn_up.weight",
                                            "ffn_down.weight", "ffn_gate.bias",
                                            "ffn_up.bias",     "ffn_down.bias"};
  return tensor == architecture.ffn_norm ||
         absl::c_linear_search(kTensors, tensor) ||
         (architecture.has_post_norms && tensor == "post_ffw_norm.weight");
}

absl::StatusOr<ProductInput> GatedFfn::Input() {
  // Attention packed what it attended in place of the norm.
  return is_parallel_
             ? context_.AsInput(context_.Normed(), context_.model_dim())
             : context_.SublayerInput(norm_);
}

absl::Status GatedFfn::Add(const StepBatch& /*batch*/) {
  ASSIGN_OR_RETURN(const ProductInput x, Input());
  ASSIGN_OR_RETURN(const ProductInput gated, network_.Gated(x));
  return context_.AddToResidual(gated, end_);
}

absl::Status GatedFfn::Compute(float* out) {
  ASSIGN_OR_RETURN(const ProductInput x, Input());
  return network_.Compute(x, {.out = out});
}

}  // namespace plimsoll::worker
