// A convolution over the last few tokens, between two gates (LFM2).
#ifndef PLIMSOLL_WORKER_GRAPH_RECURRENT_SHORT_CONV_MIXER_H_
#define PLIMSOLL_WORKER_GRAPH_RECURRENT_SHORT_CONV_MIXER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/graph/recurrent/recurrent_mixer.h"

namespace plimsoll::worker {

class ShortConvMixer final : public RecurrentMixer {
 public:
  ShortConvMixer(int64_t layer, StepContext& context, const StateRows& rows);

  // True if it reads a layer's tensor of that name.
  static bool Reads(absl::string_view tensor);

 private:
  absl::Status Mix(const ProductInput& x) override;

  // It makes the gates of inputs and of outputs, then the inputs.
  const kernels::WeightMatrix in_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_RECURRENT_SHORT_CONV_MIXER_H_
