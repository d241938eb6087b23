// Mamba 2: a convolution, then a selective scan (Granite 4, Nemotron-H).
#ifndef PLIMSOLL_WORKER_GRAPH_RECURRENT_MAMBA2_MIXER_H_
#define PLIMSOLL_WORKER_GRAPH_RECURRENT_MAMBA2_MIXER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/graph/recurrent/recurrent_mixer.h"

namespace plimsoll::worker {

class Mamba2Mixer final : public RecurrentMixer {
 public:
  Mamba2Mixer(int64_t layer, StepContext& context, const StateRows& rows);

  // True if it reads a layer's tensor of that name.
  static bool Reads(absl::string_view tensor);

 private:
  absl::Status Mix(const ProductInput& x) override;

  // It makes gates of the output, the channels of the convolution, and a number
  // of each head.
  const kernels::WeightMatrix in_;
  const float* step_bias_;
  const float* rate_;
  const float* skip_;
  const float* group_norm_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_RECURRENT_MAMBA2_MIXER_H_
