// What the sublayers of a graph share: weights by name, the buffers and rows of
// the step, and products into and out of the residual stream.
#ifndef PLIMSOLL_WORKER_GRAPH_STEP_CONTEXT_H_
#define PLIMSOLL_WORKER_GRAPH_STEP_CONTEXT_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "kernels/experts.h"
#include "kernels/tensor_view.h"
#include "planner/layout/workspace_layout.h"
#include "worker/graph/graph_parameters.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// The index of the weight `name`; nothing if the model has none.
std::optional<size_t> FindTensor(const GraphInputs& inputs,
                                 absl::string_view name);
// The bytes of the vector `name` in the arena; without data if the model has
// none.
kernels::BufferView FindWeight(const GraphInputs& inputs,
                               absl::string_view name);
// The vector `name` in the arena, or nullptr if the model has none.
const float* FindVector(const GraphInputs& inputs, absl::string_view name);

// An input of products, with its packed form unless the precision is exact.
struct ProductInput {
  const float* x;
  const std::byte* packed;
};

// Where a result is written; with `accumulate` it is added to what is there.
struct ProductOutput {
  float* out;
  bool accumulate = false;
};

// out = w x of an input; with `accumulate`, out += w x.
struct Projection {
  const kernels::WeightMatrix& w;
  float* out;
  bool accumulate = false;
};

// x += bias, unless the bias is null.
struct Bias {
  const float* bias;
  float* x;
  int64_t dim;
};

// How a sublayer ends: residual += norm(w x + bias).
struct ResidualEnd {
  kernels::WeightMatrix w = {};
  const float* bias = nullptr;       // may be null
  const float* post_norm = nullptr;  // weight of the norm; may be null
};

// A mean of squares that is as good as zero, and above it.
inline constexpr float kLeastSquare = 1e-30f;

// The graph owns it, and sublayers refer to it. Layer numbers count from the
// whole model's first layer. Nothing here allocates device memory.
class StepContext {
 public:
  StepContext(const GraphInputs& inputs, const GraphParameters& parameters);

  // Begins a step of `n_rows` rows.
  void Begin(int64_t n_rows);

  const GraphInputs& inputs() const { return inputs_; }
  const GraphParameters& parameters() const { return parameters_; }
  kernels::Backend& backend() const { return *inputs_.backend; }
  int64_t n_rows() const { return n_rows_; }
  int64_t model_dim() const { return inputs_.shape->model_dim; }
  int64_t n_streams() const { return inputs_.shape->n_streams; }

  const planner::LayerShape& Layer(int64_t layer) const {
    return inputs_.shape
        ->layers[static_cast<size_t>(layer - inputs_.first_layer)];
  }
  int64_t EndLayer() const {
    return inputs_.first_layer + inputs_.shape->n_layers;
  }
  // True if this part makes the logits; false if layers on another device
  // follow.
  bool HasLogits() const { return inputs_.output.empty(); }

  // True if the model has a weight called `name`.
  bool Has(absl::string_view name) const {
    return FindTensor(inputs_, name).has_value();
  }
  // The weight called `name`; the shape guarantees that it exists. A matrix has
  // the scale of its products, if the file has one.
  kernels::WeightMatrix Matrix(absl::string_view name) const;
  const float* Vector(absl::string_view name) const;
  // The weight's matrices, one of each expert or of each head.
  kernels::ExpertMatrices Experts(absl::string_view name) const;

  // The context of what computes with the weight: this one, or that of the CPU
  // if the weight lies in host memory for it.
  StepContext& HomeOf(absl::string_view weight);

  // The buffers of the step.
  std::byte* Bytes(planner::StepBuffer buffer) const {
    return workspace_.data + inputs_.plan->workspace[buffer].offset;
  }
  float* Buffer(planner::StepBuffer buffer) const {
    return reinterpret_cast<float*>(Bytes(buffer));
  }
  // The rows that a layer works on: the residual stream, or in a model with
  // several streams an array beside them.
  float* Residual() const { return residual_; }
  // Stream s, if there are several: [n_rows, model_dim], one after the other.
  float* Stream(int64_t s) const {
    return residual_ + (1 + s) * n_rows_ * model_dim();
  }
  float* Normed() const { return Buffer(planner::StepBuffer::kNormed); }
  // The output of attention.
  float* Attended() const { return attended_; }
  // Where inputs of `dim` elements are packed; null if they are not packed.
  std::byte* PackedInputs(
      int64_t dim,
      planner::StepBuffer buffer = planner::StepBuffer::kActivations) const;

  // The input of a sublayer, after any addition that is pending: Normed() =
  // RMSNorm(Residual()) * weight * scale, or Residual() if `weight` is null.
  absl::StatusOr<ProductInput> SublayerInput(const float* weight,
                                             float scale = 1);
  // x [n_rows, dim] as an input. Overwrites what was packed before.
  absl::StatusOr<ProductInput> AsInput(const float* x, int64_t dim);
  // Normed() = RMSNorm(x) * weight * scale as an input, for x [n_rows,
  // model_dim].
  absl::StatusOr<ProductInput> NormedInput(const float* x, const float* weight,
                                           float scale);
  // Normed() = x * weight as an input, for x [n_rows, model_dim].
  absl::StatusOr<ProductInput> WeightedInput(const float* x,
                                             const float* weight);
  // Residual() += the product of `input` that `end` describes. If it is normed,
  // the addition stays pending until the next norm, or until FinishResidual;
  // meanwhile neither Normed() nor Residual() may be read or written.
  absl::Status AddToResidual(const ProductInput& input, const ResidualEnd& end);
  // Residual() += RMSNorm(sum) * weight, which stays pending too; meanwhile
  // neither `sum` nor Residual() may be written.
  void AddNormed(float* sum, const float* weight);
  // Residual() *= scale, which becomes part of the pending addition: the caller
  // knows that there is one.
  void ScaleResidual(float scale);
  // Does the addition that AddToResidual left pending.
  absl::Status FinishResidual();

  // Mixes arrays [n_rows, model_dim]. It sets n_rows and dim.
  absl::Status MixStreams(kernels::MixRowsArgs args);
  absl::Status Project(const ProductInput& input,
                       std::initializer_list<Projection> projections);
  // Adds biases to all rows, as one operation.
  absl::Status AddBiases(std::initializer_list<Bias> biases);
  kernels::MatMulArgs ProductOf(const ProductInput& input,
                                const Projection& projection) const;

  // Rows of `dim` floats, which begin every `stride` floats; 0: they lie side
  // by side.
  struct Rows {
    const float* first;
    int64_t dim;
    int64_t stride = 0;
  };
  // Row i of `to` = row rows[i] of `from`.
  absl::Status GatherRows(const Rows& from, std::span<const int32_t> rows,
                          float* to);
  // Drops all rows of Residual(), of the streams and of Attended() but the
  // sampled ones for the rest of the step. Attended() is `attended_dim` wide.
  absl::Status KeepSampled(const StepBatch& batch, int64_t attended_dim);
  // True if the step needs queries that are rotated for prefixes, because a
  // sequence has rolled. A device that keeps a step's list of operations makes
  // them in every step that only decodes, so that a sequence that rolls does
  // not change the list.
  bool HasPrefixQueries(const StepBatch& batch) const {
    const bool keeps_lists = !backend().Device().step_rows.empty();
    return batch.has_rolled_prefix || (keeps_lists && batch.only_decodes);
  }
  // True until KeepSampled.
  bool HasAllRows() const {
    return residual_ == Buffer(planner::StepBuffer::kResidual);
  }

 private:
  absl::StatusOr<ProductInput> NormedResidual(const float* weight, float scale);
  absl::StatusOr<ProductInput> PlainResidual();
  // The norm that makes NormedInput.
  kernels::RmsNormArgs NormOf(const float* x, const float* weight,
                              float scale) const;
  // The index of the weight called `name`.
  size_t IndexOf(absl::string_view name) const;
  // The scales of a weight's products, one for each of its matrices, or null.
  const float* FindScale(const planner::WeightTensor& weight) const;
  bool IsInArena(size_t weight) const {
    return inputs_.plan->weights[weight].offset >= 0;
  }
  // The norm whose addition is pending.
  kernels::RmsNormArgs AddedNorm();

  GraphInputs inputs_;
  GraphParameters parameters_;
  std::unique_ptr<StepContext> host_;  // context of inputs_.host
  kernels::BufferView workspace_;
  kernels::BufferView weights_;
  int64_t n_rows_ = 0;
  float* residual_ = nullptr;
  float* attended_ = nullptr;
  float* added_ = nullptr;               // what the pending norm reads
  const float* added_weight_ = nullptr;  // weight of the pending norm
  float added_scale_ = 1;                // scale of the sum that it makes
  // Host scratch of a step, kept to avoid allocation.
  std::vector<int64_t> from_offsets_;
  std::vector<int64_t> to_offsets_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_STEP_CONTEXT_H_
