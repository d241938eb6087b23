// Per-layer embeddings: beside its mixer and its FFN, every layer adds
// something that it looks up for the token itself.
#ifndef PLIMSOLL_WORKER_GRAPH_PER_LAYER_EMBEDDING_H_
#define PLIMSOLL_WORKER_GRAPH_PER_LAYER_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

// The inputs of all layers, [n_rows, n_layers, ple_dim] in the buffer
// kPerLayer: (table[token] sqrt(ple_dim) + RMS(W x / sqrt(model_dim))) /
// sqrt(2), where x is the token's scaled embedding and each layer's ple_dim
// values are normed by themselves.
class PerLayerInputs {
 public:
  explicit PerLayerInputs(StepContext& context);

  // True if it reads a tensor of that name that belongs to no layer.
  static bool Reads(absl::string_view tensor);

  // Computes them; the residual stream holds the embeddings.
  absl::Status Compute(const StepBatch& batch);

 private:
  StepContext& context_;
  kernels::WeightMatrix table_;
  kernels::WeightMatrix projection_;
  const float* norm_;
};

class PerLayerEmbedding final : public Sublayer {
 public:
  PerLayerEmbedding(const planner::Architecture& architecture, int64_t layer,
                    StepContext& context);

  // True if it reads a layer's tensor of that name.
  static bool Reads(const planner::Architecture& architecture,
                    absl::string_view tensor);

  // x += RMS(Wproj (activation(Wgate x) * the layer's inputs)). If there are
  // several residual streams, the gate reads stream 0 times a weight instead,
  // and the sum is added to each of the others.
  absl::Status Add(const StepBatch& batch) override;

 private:
  // Inputs of the rows that the layer goes on with.
  struct Inputs {
    const float* rows;
    int64_t stride;  // floats from one row to the next
  };
  absl::StatusOr<Inputs> InputsOf(const StepBatch& batch);
  // Adds the product of `input`, normed, to all streams but the first one.
  absl::Status AddToOtherStreams(const ProductInput& input);

  StepContext& context_;
  const int64_t index_;                   // the layer's index in its part
  const float* stream_weight_ = nullptr;  // null if there is one stream
  kernels::WeightMatrix gate_;
  ResidualEnd end_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_PER_LAYER_EMBEDDING_H_
