// Attention whose keys and values are products of one small vector of each
// token (multi-head latent attention). The cache has that vector and the
// rotated part of the key, which all heads share, and nothing else.
//
// A head's key is K c and its value V c, where c is the vector. So q (K c) is
// computed as (K^T q) c, and the sum of weighted values as V of the weighted
// sum of vectors: attention itself has one KV head whose keys are rows of the
// cache and whose values are the same rows' first elements.
#ifndef PLIMSOLL_WORKER_GRAPH_ATTENTION_LATENT_ATTENTION_MIXER_H_
#define PLIMSOLL_WORKER_GRAPH_ATTENTION_LATENT_ATTENTION_MIXER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "kernels/experts.h"
#include "planner/model/architecture.h"
#include "worker/graph/attention/attention_rows.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

class LatentAttentionMixer final : public Sublayer {
 public:
  LatentAttentionMixer(int64_t layer, StepContext& context,
                       AttentionScratch& scratch);

  // AttentionMixer describes both.
  static absl::string_view Missing(const planner::Architecture& architecture);
  static bool Reads(absl::string_view tensor);

  // x += Wo attention(RMS(x)). After the last layer's attention, rows that
  // nobody needs are dropped.
  absl::Status Add(const StepBatch& batch) override;

 private:
  // Elements of a row of the cache that are rotated; they are its last ones.
  int64_t NumRotated() const { return shape_.head_dim - latent_.rank; }
  // x = RMS(x), rows of `dim` elements, also packed if `packed` is not null.
  absl::Status Norm(float* x, const float* weight, int64_t dim,
                    std::byte* packed);
  // Transforms rows of `dim` elements, which are whole parts of the cache's
  // rows or queries, if the cache has transforms (kernels::IsTransformed).
  absl::Status Transform(float* x, int64_t dim);
  // Fills the buffer of heads with plain queries [n_rows, n_heads, key_dim],
  // and those of values and keys with the two parts of the cache's rows.
  absl::Status Project(const ProductInput& x);
  // Rotates the rows' second part and stores both parts in the layer's pages.
  absl::Status StoreRows(const StepBatch& batch);
  // Makes queries as wide as the cache's rows, rotated by the angles:
  // `out` [n_rows, n_heads, head_dim].
  absl::Status WidenQueries(planner::StepBuffer angles, float* out);
  // Sets Attended() [n_rows, n_heads, rank], of the rows that go on.
  absl::Status Attend(const StepBatch& batch);

  StepContext& context_;
  AttentionScratch& scratch_;
  const int64_t layer_;
  const planner::LayerShape& shape_;
  const planner::LatentShape& latent_;
  KvCache& cache_;
  const int64_t n_heads_;
  const DType row_type_;  // type of the cache's rows
  const float* norm_;
  // Two products make plain queries, with a norm in between. If the norm is
  // null, the second one makes them alone.
  kernels::WeightMatrix q_a_;
  const float* q_a_norm_ = nullptr;
  kernels::WeightMatrix q_;
  kernels::WeightMatrix vector_;  // these make the two parts of a row
  kernels::WeightMatrix rotated_;
  const float* vector_norm_;
  kernels::ExpertMatrices keys_;    // K^T of each head
  kernels::ExpertMatrices values_;  // V of each head
  ResidualEnd end_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_ATTENTION_LATENT_ATTENTION_MIXER_H_
