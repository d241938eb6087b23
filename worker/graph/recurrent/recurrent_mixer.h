// The common base of mixers that keep a state.
#ifndef PLIMSOLL_WORKER_GRAPH_RECURRENT_RECURRENT_MIXER_H_
#define PLIMSOLL_WORKER_GRAPH_RECURRENT_RECURRENT_MIXER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/recurrent.h"
#include "planner/model/model_shape.h"
#include "worker/graph/recurrent/state_rows.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

// The names that a kind of mixer has for two of its tensors, without ".weight".
struct RecurrentNames {
  absl::string_view convolution;
  absl::string_view output;
};

// A step's rows change the states of their sequences, one after the other, and
// read them. Drafts may be taken back. KvCache::AcceptDrafts tells which of
// them are kept.
class RecurrentMixer : public Sublayer {
 public:
  // x += Wo mix(RMS(x)). After the last layer's states have changed, rows that
  // nobody needs are dropped.
  absl::Status Add(const StepBatch& batch) final;

 protected:
  RecurrentMixer(int64_t layer, const RecurrentNames& names,
                 StepContext& context, const StateRows& rows);

  // Sets Attended(), [n_rows, inputs of the output's product].
  virtual absl::Status Mix(const ProductInput& x) = 0;

  StepContext& context() const { return context_; }
  const planner::RecurrentShape& widths() const {
    return context_.inputs().shape->recurrent;
  }
  // Convolves what `args` says; weights, sizes and states are set here.
  absl::Status Convolve(kernels::CausalConvArgs args);
  // Norms Attended() in place as `args` says; rows and epsilon are set here.
  absl::Status NormAttended(kernels::GatedNormArgs args);
  // The part of the layer's states that is behind the convolution's.
  kernels::StepStates HeadStates() const {
    return rows_.Of(states_, widths().ConvFloats());
  }
  // The name of this layer's tensor.
  std::string Name(absl::string_view tensor) const;

 private:
  StepContext& context_;
  const int64_t layer_;
  const StateRows& rows_;
  const KvCache::LayerStates states_;
  const float* norm_;
  const float* conv_;
  const float* conv_bias_;  // may be null
  ResidualEnd end_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_RECURRENT_RECURRENT_MIXER_H_
