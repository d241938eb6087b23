#include "worker/graph/per_layer_embedding.h"

#include <cmath>
#include <numbers>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

PerLayerInputs::PerLayerInputs(StepContext& context)
    : context_(context),
      table_(context.Matrix("per_layer_token_embd.weight")),
      projection_(context.Matrix("per_layer_model_proj.weight")),
      norm_(context.Vector("per_layer_proj_norm.weight")) {}

bool PerLayerInputs::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"per_layer_token_embd.weight",
                                            "per_layer_model_proj.weight",
                                            "per_layer_proj_norm.weight"};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status PerLayerInputs::Compute(const StepBatch& batch) {
  constexpr float kRootOfHalf = 1 / std::numbers::sqrt2_v<float>;
  const planner::ModelShape& shape = *context_.inputs().shape;
  kernels::Backend& backend = context_.backend();
  float* const inputs = context_.Buffer(StepBuffer::kPerLayer);
  ASSIGN_OR_RETURN(const ProductInput x,
                   context_.SublayerInput(/*weight=*/nullptr));
  RETURN_IF_ERROR(context_.Project(x, {{projection_, inputs}}));
  // A norm of x / sqrt(model_dim) is one of x whose eps is model_dim times as
  // large.
  const float eps =
      context_.parameters().rms_eps * static_cast<float>(context_.model_dim());
  RETURN_IF_ERROR(backend.RmsNorm({.x = inputs,
                                   .weight = norm_,
                                   .out = inputs,
                                   .n_rows = context_.n_rows() * shape.n_layers,
                                   .dim = shape.ple_dim,
                                   .eps = eps,
                                   .accumulate = false,
                                   .scale = kRootOfHalf}));
  const float scale =
      std::sqrt(static_cast<float>(shape.ple_dim)) * kRootOfHalf;
  return backend.GetRows({.table = table_,
                          .tokens = batch.tokens.data(),
                          .n_rows = context_.n_rows(),
                          .scale = scale,
                          .out = inputs,
                          .accumulate = true});
}

PerLayerEmbedding::PerLayerEmbedding(const planner::Architecture& architecture,
                                     int64_t layer, StepContext& context)
    : context_(context), index_(layer - context.inputs().first_layer) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  if (architecture.has_altup) {
    stream_weight_ = context.Vector(p + "altup_correct_scale.weight");
  }
  gate_ = context.Matrix(p + "inp_gate.weight");
  end_.w = context.Matrix(p + "proj.weight");
  end_.post_norm = context.Vector(p + "post_norm.weight");
}

bool PerLayerEmbedding::Reads(const planner::Architecture& architecture,
                              absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"inp_gate.weight", "proj.weight",
                                            "post_norm.weight"};
  return absl::c_linear_search(kTensors, tensor) ||
         (architecture.has_altup && tensor == "altup_correct_scale.weight");
}

absl::StatusOr<PerLayerEmbedding::Inputs> PerLayerEmbedding::InputsOf(
    const StepBatch& batch) {
  const planner::ModelShape& shape = *context_.inputs().shape;
  const int64_t stride = shape.n_layers * shape.ple_dim;
  const float* const all =
      context_.Buffer(StepBuffer::kPerLayer) + index_ * shape.ple_dim;
  if (context_.HasAllRows()) return Inputs{all, stride};
  float* const sampled = context_.Buffer(StepBuffer::kUp);
  RETURN_IF_ERROR(context_.GatherRows({all, shape.ple_dim, stride},
                                      batch.sampled_rows, sampled));
  return Inputs{sampled, shape.ple_dim};
}

absl::Status PerLayerEmbedding::AddToOtherStreams(const ProductInput& input) {
  float* const sum = context_.Normed();
  RETURN_IF_ERROR(context_.Project(input, {{end_.w, sum}}));
  RETURN_IF_ERROR(
      context_.backend().RmsNorm({.x = sum,
                                  .weight = end_.post_norm,
                                  .out = sum,
                                  .n_rows = context_.n_rows(),
                                  .dim = context_.model_dim(),
                                  .eps = context_.parameters().rms_eps,
                                  .accumulate = false}));
  float* const others = context_.Stream(1);
  return context_.MixStreams({.x = others,
                              .y = sum,
                              .out = others,
                              .n_out = context_.n_streams() - 1});
}

absl::Status PerLayerEmbedding::Add(const StepBatch& batch) {
  const bool has_streams = stream_weight_ != nullptr;
  ASSIGN_OR_RETURN(
      const ProductInput x,
      has_streams ? context_.WeightedInput(context_.Stream(0), stream_weight_)
                  : context_.SublayerInput(/*weight=*/nullptr));
  float* const gate = context_.Buffer(StepBuffer::kGate);
  RETURN_IF_ERROR(context_.Project(x, {{gate_, gate}}));
  ASSIGN_OR_RETURN(const Inputs inputs, InputsOf(batch));
  std::byte* const packed = context_.PackedInputs(gate_.rows);
  RETURN_IF_ERROR(context_.backend().GatedActivation(
      {.gate = gate,
       .up = inputs.rows,
       .out = gate,
       .n_rows = context_.n_rows(),
       .dim = gate_.rows,
       .activation = context_.parameters().activation,
       .packed = packed,
       .up_stride = inputs.stride}));
  return has_streams ? AddToOtherStreams({gate, packed})
                     : context_.AddToResidual({gate, packed}, end_);
}

}  // namespace plimsoll::worker
