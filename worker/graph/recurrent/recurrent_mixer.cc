#include "worker/graph/recurrent/recurrent_mixer.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/graph/attention/attention_rows.h"

namespace plimsoll::worker {

RecurrentMixer::RecurrentMixer(int64_t layer, const RecurrentNames& names,
                               StepContext& context, const StateRows& rows)
    : context_(context),
      layer_(layer),
      rows_(rows),
      states_(context.inputs().cache->States(layer)),
      norm_(context.Vector(Name("attn_norm.weight"))),
      conv_(context.Vector(Name(absl::StrCat(names.convolution, ".weight")))),
      conv_bias_(FindVector(context.inputs(),
                            Name(absl::StrCat(names.convolution, ".bias")))) {
  end_.w = context.Matrix(Name(absl::StrCat(names.output, ".weight")));
}

std::string RecurrentMixer::Name(absl::string_view tensor) const {
  return absl::StrCat("blk.", layer_, ".", tensor);
}

absl::Status RecurrentMixer::Add(const StepBatch& batch) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(norm_));
  RETURN_IF_ERROR(Mix(x));
  if (!KeepsAllRows(context_, batch, layer_)) {
    RETURN_IF_ERROR(context_.KeepSampled(batch, end_.w.cols));
    if (context_.n_rows() == 0) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ProductInput mixed,
                   context_.AsInput(context_.Attended(), end_.w.cols));
  return context_.AddToResidual(mixed, end_);
}

absl::Status RecurrentMixer::Convolve(kernels::CausalConvArgs args) {
  args.weight = conv_;
  args.bias = conv_bias_;
  args.n_rows = context_.n_rows();
  args.channels = widths().n_channels;
  args.width = widths().n_taps;
  args.states = rows_.Of(states_, /*offset=*/0);
  return context_.backend().CausalConv(args);
}

absl::Status RecurrentMixer::NormAttended(kernels::GatedNormArgs args) {
  args.x = context_.Attended();
  args.out = context_.Attended();
  args.n_rows = context_.n_rows();
  args.eps = context_.parameters().rms_eps;
  return context_.backend().GatedNorm(args);
}

}  // namespace plimsoll::worker
