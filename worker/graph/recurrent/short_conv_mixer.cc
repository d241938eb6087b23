#include "worker/graph/recurrent/short_conv_mixer.h"

#include "absl/algorithm/container.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

ShortConvMixer::ShortConvMixer(int64_t layer, StepContext& context,
                               const StateRows& rows)
    : RecurrentMixer(
          layer,
          {.convolution = "shortconv.conv", .output = "shortconv.out_proj"},
          context, rows),
      in_(context.Matrix(Name("shortconv.in_proj.weight"))) {}

bool ShortConvMixer::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "attn_norm.weight", "shortconv.conv.weight", "shortconv.in_proj.weight",
      "shortconv.out_proj.weight"};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status ShortConvMixer::Mix(const ProductInput& x) {
  float* const made = context().Buffer(planner::StepBuffer::kQuery);
  RETURN_IF_ERROR(context().Project(x, {{in_, made}}));
  const int64_t n = widths().n_channels;
  return Convolve({.x = made + 2 * n,
                   .input_gate = made,
                   .output_gate = made + n,
                   .stride = in_.rows,
                   .out = context().Attended()});
}

}  // namespace plimsoll::worker
