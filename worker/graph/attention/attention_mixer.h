// Causal attention over pages or rings of keys and values.
#ifndef PLIMSOLL_WORKER_GRAPH_ATTENTION_ATTENTION_MIXER_H_
#define PLIMSOLL_WORKER_GRAPH_ATTENTION_ATTENTION_MIXER_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"
#include "worker/graph/attention/attention_rows.h"
#include "worker/graph/low_rank_branch.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

class AttentionMixer final : public Sublayer {
 public:
  AttentionMixer(const planner::Architecture& architecture, int64_t layer,
                 StepContext& context, AttentionScratch& scratch);

  // Names what this class cannot compute of layers of the architecture. The
  // text follows "architecture X with". It is empty if the class can compute
  // all of it.
  static absl::string_view Missing(const planner::Architecture& architecture);
  // True if it reads a layer's tensor of that name.
  static bool Reads(const planner::Architecture& architecture,
                    absl::string_view tensor);

  // x += Wo attention(RMS(x)); the sum is normed if the architecture norms it.
  // If there is a branch beside attention, x becomes (x + both) / sqrt(2).
  // After the last layer's attention, rows that nobody needs are dropped.
  absl::Status Add(const StepBatch& batch) override;

 private:
  bool OwnsKv() const { return source_ == layer_; }
  // Fills the query, key and value buffers by products and their biases. If
  // attention has gates, the buffer of heads gets them beside queries, and
  // queries are normed where they are taken out.
  absl::Status ProjectHeads(const ProductInput& x);
  // Does the norms that PrepareHeads does not do: of values, of all heads of a
  // row together, and of heads without a weight. Multiplies queries that grow.
  absl::Status ScaleHeads();
  absl::Status NormValues();
  // out = `heads` with each of a row's `n_heads` normed, without a weight.
  absl::Status NormPlain(const float* heads, int64_t n_heads, float* out);
  // Norms all heads of a row together, if there is a weight for it.
  absl::Status NormTogether(float* heads, const float* weight, int64_t dim);
  // Turns the query, key and value buffers into Attended(): norms, rotates,
  // stores keys and values, attends, and moves a ring layer's new rows to its
  // rings.
  absl::StatusOr<ProductInput> Attend(const StepBatch& batch);
  // Angles of this layer's base, for the recent or the prefix rotation.
  const float* Angles(planner::StepBuffer buffer) const;
  // Sets the scratch's offsets to those of the step's keys and values, [places,
  // 2, n_rows], and returns the address from which they count. PlaceInPages
  // places rows in the layer's pages. PlaceInChunk places them in the chunk's
  // buffers, and in the layer's rings too if the step may enter them at once.
  std::byte* PlaceInPages(const StepBatch& batch);
  std::byte* PlaceInChunk(const StepBatch& batch);
  // Norms and rotates queries and keys, and stores keys and values. Returns the
  // queries to use for prefix pages.
  absl::StatusOr<const float*> PrepareHeads(const StepBatch& batch);
  // Multiplies Attended() by its gates.
  absl::Status ApplyGates();
  // Transforms Attended() back, for values that are transformed
  // (kernels::IsTransformed).
  absl::Status TransformBack();
  absl::Status MoveChunkToRings(const StepBatch& batch);

  StepContext& context_;
  AttentionScratch& scratch_;
  const int64_t layer_;
  const planner::LayerShape& shape_;
  KvCache& cache_;
  const bool is_ring_;
  const bool has_parallel_ffn_;
  const bool has_gates_;
  // The rotation of this layer. It rotates nothing if the layer does not
  // rotate.
  const RopeParameters rope_;
  // The layer whose keys and values this one reads, which may be itself. After
  // the last reader a chunk moves to the rings.
  const int64_t source_;
  const bool is_last_reader_;
  std::optional<LayerRings> rings_;  // rings of the source layer
  const float* norm_ = nullptr;      // null: its input is not normed
  kernels::WeightMatrix q_, k_, v_;
  bool owns_values_ = false;  // they are not the keys
  bool norms_values_ = false;
  bool norms_heads_ = false;       // without a weight
  bool grows_queries_ = true;      // where the model does
  const float* q_bias_ = nullptr;  // each may be null
  const float* k_bias_ = nullptr;
  const float* v_bias_ = nullptr;
  const float* q_norm_ = nullptr;  // one for all heads, [head_dim], or null
  const float* k_norm_ = nullptr;
  const float* gated_q_norm_ = nullptr;  // instead of q_norm_, if it has gates
  const float* joint_q_norm_ = nullptr;  // one for all heads together, or null
  const float* joint_k_norm_ = nullptr;
  const float* sinks_ = nullptr;  // [n_heads], or null
  ResidualEnd end_;
  std::optional<LowRankBranch> branch_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_ATTENTION_ATTENTION_MIXER_H_
