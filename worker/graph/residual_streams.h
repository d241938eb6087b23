// Several residual streams (AltUp). A layer computes with the first one alone:
// the streams are predicted before it and corrected after it, with weights that
// a router makes of each row.
// Source: Baykal et al., "Alternating Updates for Efficient Transformers".
#ifndef PLIMSOLL_WORKER_GRAPH_RESIDUAL_STREAMS_H_
#define PLIMSOLL_WORKER_GRAPH_RESIDUAL_STREAMS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/experts.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

// Both ends of the streams.
class ResidualStreams {
 public:
  explicit ResidualStreams(StepContext& context);

  // True if it reads a tensor of that name that belongs to no layer.
  static bool Reads(absl::string_view tensor);

  // Before the first layer. Stream 0 is Residual(), and stream s is the s-th
  // product of it, which gets its size.
  absl::Status Split();
  // After the last layer. Residual() is the mean of stream 0 and of a product
  // of each other one, which gets the size of stream 0.
  absl::Status Merge();

 private:
  // to = w x for x [n_rows, model_dim], with the size of stream 0. `scratch`
  // may be `to`, but not `x`.
  absl::Status ProjectInSize(const ProductInput& x,
                             const kernels::WeightMatrix& w, float* scratch,
                             float* to);

  StepContext& context_;
  kernels::ExpertMatrices split_, merge_;  // [streams - 1]
};

// Makes the weights of a row: W tanh(Wrouter x).
class StreamRouter {
 public:
  // `weights` names W, a tensor of the layer.
  StreamRouter(int64_t layer, absl::string_view weights, StepContext& context);

  // The weight of the norm that makes `x`, and the norm's scale.
  const float* norm() const { return norm_; }
  float scale() const;
  // The weights of all rows, [n_rows, rows of W]. They lie in kMixing.
  absl::StatusOr<const float*> WeightsOf(const ProductInput& x);

 private:
  StepContext& context_;
  const float* norm_;
  kernels::WeightMatrix router_, weights_;
};

// The first sublayer. Each stream gets a weighted sum of all of them added, and
// Residual() becomes stream 0.
class PredictStreams final : public Sublayer {
 public:
  PredictStreams(int64_t layer, StepContext& context);

  // True if it, or CorrectStreams, reads a layer's tensor of that name.
  static bool Reads(absl::string_view tensor);

  absl::Status Add(const StepBatch& batch) override;

 private:
  StepContext& context_;
  StreamRouter router_;
};

// The sublayer after the FFN. What the layer added to stream 0, Residual() less
// its prediction, is added to each stream, times 1 + a weight.
class CorrectStreams final : public Sublayer {
 public:
  CorrectStreams(int64_t layer, StepContext& context);

  absl::Status Add(const StepBatch& batch) override;

 private:
  StepContext& context_;
  StreamRouter router_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_RESIDUAL_STREAMS_H_
