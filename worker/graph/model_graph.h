// What the graphs of all families share: weights by name, the step's buffers,
// and the sublayers that do not differ between families.
#ifndef PLIMSOLL_WORKER_GRAPH_MODEL_GRAPH_H_
#define PLIMSOLL_WORKER_GRAPH_MODEL_GRAPH_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "kernels/tensor_view.h"
#include "planner/layout/workspace_layout.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// How a layer rotates queries and keys.
struct RopeParameters {
  double base;
  double scale;                         // 1 / linear scaling factor
  const float* freq_factors = nullptr;  // device, [n_rot / 2] or nullptr
  int64_t n_rot;
  kernels::RopeStyle style;
};

// Hyperparameters of the forward pass that the planner does not need.
struct GraphParameters {
  float rms_eps;
  float embedding_scale;
  float attention_scale;
  RopeParameters rope;         // full-attention layers
  RopeParameters window_rope;  // sliding-window layers
  kernels::Activation activation;
};

// The metadata value of `key`, or `fallback` if absent.
// Errors: kInvalidArgument if it is not a finite positive number.
absl::StatusOr<double> PositiveFloat(const planner::GgufHeader& header,
                                     const std::string& key, double fallback);

// The rope of full-attention layers from `A.rope.*`: base, linear scaling,
// n_rot = A.rope.dimension_count or head_dim.
// Errors: kUnimplemented naming another kind of scaling; kInvalidArgument for
// values that make no sense.
absl::StatusOr<RopeParameters> ReadRope(const planner::GgufHeader& header,
                                        const std::string& architecture,
                                        int64_t head_dim,
                                        kernels::RopeStyle style);

// The vector `name` in the arena, or nullptr if the model has none.
const float* FindVector(const ModelParts& parts, absl::string_view name);

// Base class of the families' graphs, which add what a layer is made of.
// Layers are counted from the model's first one, wherever it lies; nothing here
// allocates device memory.
class ModelGraph : public Model {
 public:
  absl::Status Step(const StepBatch& batch) final;
  absl::Status ComputeLogits(std::span<const int32_t> rows) final;
  const float* Logits() const final { return logits_; }

 protected:
  ModelGraph(const ModelParts& parts, const GraphParameters& parameters);

  // Both halves of a layer: Residual() += what they make of it. The second one
  // is left out where the first one left no row.
  virtual absl::Status AttentionBlock(const StepBatch& batch,
                                      int64_t layer) = 0;
  virtual absl::Status FfnBlock(int64_t layer) = 0;

  // The weight called `name`; the shape guarantees that it exists.
  kernels::WeightMatrix Matrix(absl::string_view name) const;
  const float* Vector(absl::string_view name) const;

  // f32 buffers of the step.
  float* Residual() const { return residual_; }
  float* Normed() const { return Buffer(planner::StepBuffer::kNormed); }
  float* Query() const { return Buffer(planner::StepBuffer::kQuery); }
  float* Key() const { return Buffer(planner::StepBuffer::kKey); }
  float* Value() const { return Buffer(planner::StepBuffer::kValue); }
  float* Attended() const { return attended_; }
  float* Gate() const { return Buffer(planner::StepBuffer::kGate); }
  float* Up() const { return Buffer(planner::StepBuffer::kUp); }

  // An input of products: its packed form too unless the precision is exact.
  struct Input {
    const float* x;
    const std::byte* packed;
  };

  // Normed() = RMSNorm(Residual()) * weight, after what is left to add to it.
  absl::StatusOr<Input> NormedResidual(const float* weight);
  // Residual() += RMSNorm(Normed()) * weight: with the norm that follows, or at
  // the end of the layers. Until then neither is read or written.
  void AddNormed(const float* weight) { added_weight_ = weight; }

  // out = w x of the input, or out += w x.
  struct Projection {
    const kernels::WeightMatrix& w;
    float* out;
    bool accumulate = false;
  };
  static constexpr size_t kMaxProjections = 3;
  absl::Status Project(const Input& input,
                       std::initializer_list<Projection> projections);
  kernels::MatMulArgs ProductOf(const Input& input,
                                const Projection& projection) const;

  // Weights of the norms over each head of queries and keys, [head_dim]; null
  // where a family has none.
  struct HeadNorms {
    const float* q = nullptr;
    const float* k = nullptr;
  };
  // Query/Key/Value -> Attended: norms, rotates, stores keys and values,
  // attends, and moves a ring layer's new rows into its rings. After the last
  // layer's, rows that nobody asks for are left out: n_rows() may be 0.
  absl::StatusOr<Input> SelfAttention(const StepBatch& batch, int64_t layer,
                                      const HeadNorms& norms);

  // activation(gate x) * (up x) of the input, for a product with weights of
  // type `reader`. Overwrites Gate() and Up().
  absl::StatusOr<Input> GatedInput(const Input& input,
                                   const kernels::WeightMatrix& gate,
                                   const kernels::WeightMatrix& up,
                                   DType reader);

  // Where one of these layers is among them.
  size_t IndexOf(int64_t layer) const {
    return static_cast<size_t>(layer - parts_.first_layer);
  }
  const planner::LayerShape& Layer(int64_t layer) const {
    return parts_.shape->layers[IndexOf(layer)];
  }
  int64_t EndLayer() const {
    return parts_.first_layer + parts_.shape->n_layers;
  }
  const ModelParts& parts() const { return parts_; }
  int64_t n_rows() const { return n_rows_; }

 private:
  // Everything between the rows that come in and those that go out.
  absl::Status Compute(const StepBatch& batch);
  // Logits of the batch's sampled rows.
  absl::Status StepLogits(const StepBatch& batch);
  bool HasLogits() const { return parts_.output.empty(); }

  float* Buffer(planner::StepBuffer buffer) const {
    return reinterpret_cast<float*>(Bytes(buffer));
  }
  std::byte* Bytes(planner::StepBuffer buffer) const;

  // Where inputs of `dim` are packed; null if they are not.
  std::byte* PackedInputs(
      int64_t dim,
      planner::StepBuffer buffer = planner::StepBuffer::kActivations) const;
  const RopeParameters& RopeOf(int64_t layer) const;
  // Angles of this layer's base, for the recent or the prefix rotation.
  const float* AnglesOf(int64_t layer, planner::StepBuffer buffer) const;
  absl::Status ComputeAngles(const std::vector<int64_t>& positions,
                             planner::StepBuffer buffer);
  // Makes offsets_ those of the step's keys and values, [places, 2, n_rows],
  // and returns what they are counted from: in the layer's pages; in the
  // chunk's buffers, and in the layer's rings too where it may enter them.
  std::byte* PlaceInPages(const StepBatch& batch, int64_t layer);
  std::byte* PlaceInChunk(const StepBatch& batch, int64_t layer);
  // Norms and rotates queries and keys, and stores keys and values. Returns the
  // queries to use for prefix pages.
  absl::StatusOr<const float*> PrepareHeads(const StepBatch& batch,
                                            int64_t layer,
                                            const HeadNorms& norms);
  absl::Status MoveChunkToRings(const StepBatch& batch, int64_t layer);

  // The norm that AddNormed left to be done.
  kernels::RmsNormArgs AddedNorm();
  // Row i of `to` = row rows[i] of `from`, `dim` floats each.
  absl::Status GatherRows(const float* from, std::span<const int32_t> rows,
                          int64_t dim, float* to);
  // From now on the step has its sampled rows only.
  absl::StatusOr<Input> KeepSampled(const StepBatch& batch,
                                    int64_t attended_dim);
  // Logits of the first n_sampled rows of the buffer kSampled; they are the
  // step's from `first` on.
  absl::Status SampledLogits(int64_t n_sampled, int64_t first,
                             std::span<const kernels::TopOutputs> top);

  ModelParts parts_;
  GraphParameters parameters_;
  kernels::BufferView workspace_;
  kernels::BufferView weights_;
  kernels::WeightMatrix output_ = {};  // of logits
  float* logits_;
  int64_t n_rows_ = 0;
  float* residual_ = nullptr;
  float* attended_ = nullptr;
  const float* added_weight_ = nullptr;  // of AddNormed, while that is to come
  // Host scratch of a step, kept to avoid allocation.
  std::vector<int64_t> offsets_;
  std::vector<int64_t> more_offsets_;
  std::vector<kernels::AttentionSegment> segments_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_MODEL_GRAPH_H_
