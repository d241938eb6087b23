#include "worker/graph/residual_streams.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

static_assert(planner::ModelShape::kMaxStreams <= kernels::kMaxMixed);

ResidualStreams::ResidualStreams(StepContext& context)
    : context_(context),
      split_(context.Experts("altup_proj.weight")),
      merge_(context.Experts("altup_unembd_proj.weight")) {}

bool ResidualStreams::Reads(absl::string_view tensor) {
  return tensor == "altup_proj.weight" || tensor == "altup_unembd_proj.weight";
}

absl::Status ResidualStreams::Split() {
  ASSIGN_OR_RETURN(const ProductInput x,
                   context_.SublayerInput(/*weight=*/nullptr));
  RETURN_IF_ERROR(context_.MixStreams(
      {.y = context_.Residual(), .out = context_.Stream(0)}));
  for (int64_t s = 1; s < context_.n_streams(); ++s) {
    RETURN_IF_ERROR(ProjectInSize(x, split_.Of(s - 1), context_.Stream(s),
                                  context_.Stream(s)));
  }
  return absl::OkStatus();
}

absl::Status ResidualStreams::Merge() {
  if (context_.n_rows() == 0) return absl::OkStatus();
  const int64_t n_streams = context_.n_streams();
  for (int64_t s = 1; s < n_streams; ++s) {
    ASSIGN_OR_RETURN(
        const ProductInput x,
        context_.AsInput(context_.Stream(s), context_.model_dim()));
    RETURN_IF_ERROR(ProjectInSize(x, merge_.Of(s - 1), context_.Normed(),
                                  context_.Stream(s)));
  }
  // The mean is one of them, and a part of what the others have more than it.
  return context_.MixStreams({.x = context_.Stream(0),
                              .y = context_.Stream(1),
                              .minus = context_.Stream(0),
                              .offset = 1 / static_cast<float>(n_streams),
                              .out = context_.Residual(),
                              .n_in = n_streams - 1});
}

absl::Status ResidualStreams::ProjectInSize(const ProductInput& x,
                                            const kernels::WeightMatrix& w,
                                            float* scratch, float* to) {
  RETURN_IF_ERROR(context_.Project(x, {{w, scratch}}));
  return context_.backend().RmsNorm({.x = scratch,
                                     .weight = nullptr,
                                     .out = to,
                                     .n_rows = context_.n_rows(),
                                     .dim = context_.model_dim(),
                                     .eps = kLeastSquare,
                                     .accumulate = false,
                                     .like = context_.Stream(0)});
}

StreamRouter::StreamRouter(int64_t layer, absl::string_view weights,
                           StepContext& context)
    : context_(context) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  norm_ = context.Vector(p + "altup_router_norm.weight");
  router_ = context.Matrix(p + "altup_router.weight");
  weights_ = context.Matrix(absl::StrCat(p, weights));
}

float StreamRouter::scale() const {
  return 1 / static_cast<float>(context_.model_dim());
}

absl::StatusOr<const float*> StreamRouter::WeightsOf(const ProductInput& x) {
  float* const scores = context_.Buffer(StepBuffer::kMixing);
  float* const weights = scores + context_.n_rows() * router_.rows;
  kernels::MatMulArgs product = context_.ProductOf(x, {router_, scores});
  product.soft_cap = 1;  // the hyperbolic tangent
  RETURN_IF_ERROR(context_.backend().MatMul(product));
  RETURN_IF_ERROR(context_.Project({scores, nullptr}, {{weights_, weights}}));
  return weights;
}

PredictStreams::PredictStreams(int64_t layer, StepContext& context)
    : context_(context), router_(layer, "altup_predict_coef.weight", context) {}

bool PredictStreams::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "altup_router_norm.weight", "altup_router.weight",
      "altup_predict_coef.weight", "altup_correct_coef.weight"};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status PredictStreams::Add(const StepBatch& /*batch*/) {
  float* const streams = context_.Stream(0);
  const int64_t n_streams = context_.n_streams();
  ASSIGN_OR_RETURN(
      const ProductInput x,
      context_.NormedInput(streams, router_.norm(), router_.scale()));
  ASSIGN_OR_RETURN(const float* const weights, router_.WeightsOf(x));
  RETURN_IF_ERROR(context_.MixStreams({.x = streams,
                                       .y = streams,
                                       .weights = weights,
                                       .offset = 0,
                                       .out = streams,
                                       .n_out = n_streams,
                                       .n_in = n_streams}));
  return context_.MixStreams({.y = streams, .out = context_.Residual()});
}

CorrectStreams::CorrectStreams(int64_t layer, StepContext& context)
    : context_(context), router_(layer, "altup_correct_coef.weight", context) {}

absl::Status CorrectStreams::Add(const StepBatch& /*batch*/) {
  ASSIGN_OR_RETURN(const ProductInput x,
                   context_.SublayerInput(router_.norm(), router_.scale()));
  ASSIGN_OR_RETURN(const float* const weights, router_.WeightsOf(x));
  float* const streams = context_.Stream(0);
  return context_.MixStreams({.x = streams,
                              .y = context_.Residual(),
                              .minus = streams,
                              .weights = weights,
                              .out = streams,
                              .n_out = context_.n_streams()});
}

}  // namespace plimsoll::worker
