// A gated delta net: a convolution, then heads whose states are corrected by
// every row (Qwen 3 Next, Qwen 3.5).
#ifndef PLIMSOLL_WORKER_GRAPH_RECURRENT_DELTA_NET_MIXER_H_
#define PLIMSOLL_WORKER_GRAPH_RECURRENT_DELTA_NET_MIXER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"
#include "worker/graph/recurrent/recurrent_mixer.h"

namespace plimsoll::worker {

class DeltaNetMixer final : public RecurrentMixer {
 public:
  DeltaNetMixer(const planner::Architecture& architecture, int64_t layer,
                StepContext& context, const StateRows& rows);

  // True if it reads a layer's tensor of that name.
  static bool Reads(absl::string_view tensor);

 private:
  absl::Status Mix(const ProductInput& x) override;
  // Makes the two numbers of each head, and sets where `args` finds them.
  absl::Status ProjectNumbers(const ProductInput& x, float* out,
                              kernels::StateScanArgs& args);

  const kernels::KeyHeadOrder order_;
  kernels::WeightMatrix qkv_;
  kernels::WeightMatrix gate_;
  // One product makes both numbers of each head (`both_`), or two do.
  kernels::WeightMatrix both_;
  kernels::WeightMatrix decay_;
  kernels::WeightMatrix beta_;
  const float* decay_bias_;
  const float* rate_;
  const float* head_norm_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_RECURRENT_DELTA_NET_MIXER_H_
