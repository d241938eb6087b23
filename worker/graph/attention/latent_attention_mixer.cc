#include "worker/graph/attention/latent_attention_mixer.h"

#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/hadamard.h"
#include "kernels/heads.h"
#include "kernels/quant/kv_row.h"

namespace plimsoll::worker {

using planner::StepBuffer;

LatentAttentionMixer::LatentAttentionMixer(int64_t layer, StepContext& context,
                                           AttentionScratch& scratch)
    : context_(context),
      scratch_(scratch),
      layer_(layer),
      shape_(context.Layer(layer)),
      latent_(context.inputs().shape->latent),
      cache_(*context.inputs().cache),
      n_heads_(context.inputs().shape->n_heads),
      row_type_(context.inputs().plan->options.k_type) {
  const std::string p = absl::StrCat("blk.", layer, ".attn_");
  norm_ = context.Vector(p + "norm.weight");
  if (latent_.query_rank > 0) {
    q_a_ = context.Matrix(p + "q_a.weight");
    q_a_norm_ = context.Vector(p + "q_a_norm.weight");
    q_ = context.Matrix(p + "q_b.weight");
  } else {
    q_ = context.Matrix(p + "q.weight");
  }
  vector_ = context.Matrix(p + "kv_a.weight");
  rotated_ = context.Matrix(p + "k_rot.weight");
  vector_norm_ = context.Vector(p + "kv_a_norm.weight");
  keys_ = context.Experts(p + "k_b.weight");
  values_ = context.Experts(p + "v_b.weight");
  end_.w = context.Matrix(p + "output.weight");
}

absl::string_view LatentAttentionMixer::Missing(
    const planner::Architecture& architecture) {
  if (architecture.windows != planner::WindowRule::kNone) {
    return "latent attention in windows";
  }
  if (!architecture.has_pre_norms) return "latent attention without a norm";
  if (architecture.has_parallel_ffn) return "latent attention beside the FFN";
  if (architecture.growing_queries != planner::GrowingQueries::kNone ||
      architecture.unrotated_period > 0) {
    return "latent attention that depends on more than the distance of tokens";
  }
  return "";
}

bool LatentAttentionMixer::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {
      "attn_norm.weight",     "attn_q.weight",         "attn_q_a.weight",
      "attn_q_a_norm.weight", "attn_q_b.weight",       "attn_kv_a.weight",
      "attn_k_rot.weight",    "attn_kv_a_norm.weight", "attn_k_b.weight",
      "attn_v_b.weight",      "attn_output.weight"};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status LatentAttentionMixer::Add(const StepBatch& batch) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(norm_));
  RETURN_IF_ERROR(Project(x));
  RETURN_IF_ERROR(StoreRows(batch));
  RETURN_IF_ERROR(Attend(batch));
  if (context_.n_rows() == 0) return absl::OkStatus();
  float* const heads = context_.Buffer(StepBuffer::kHeads);
  RETURN_IF_ERROR(
      context_.backend().HeadMatMul({.w = values_,
                                     .n_rows = context_.n_rows(),
                                     .n_heads = n_heads_,
                                     .x = context_.Attended(),
                                     .x_stride = latent_.rank,
                                     .out = heads,
                                     .out_stride = latent_.value_dim}));
  ASSIGN_OR_RETURN(const ProductInput values,
                   context_.AsInput(heads, n_heads_ * latent_.value_dim));
  return context_.AddToResidual(values, end_);
}

absl::Status LatentAttentionMixer::Norm(float* x, const float* weight,
                                        int64_t dim, std::byte* packed) {
  return context_.backend().RmsNorm({.x = x,
                                     .weight = weight,
                                     .out = x,
                                     .n_rows = context_.n_rows(),
                                     .dim = dim,
                                     .eps = context_.parameters().rms_eps,
                                     .accumulate = false,
                                     .packed = packed});
}

absl::Status LatentAttentionMixer::Transform(float* x, int64_t dim) {
  if (!kernels::IsTransformed(row_type_)) return absl::OkStatus();
  // Both parts of a row are multiples of the width.
  return context_.backend().Hadamard(
      {.x = x,
       .n_rows = context_.n_rows(),
       .dim = dim,
       .width = kernels::HadamardWidth(latent_.rank | NumRotated())});
}

absl::Status LatentAttentionMixer::Project(const ProductInput& x) {
  float* const heads = context_.Buffer(StepBuffer::kHeads);
  float* const vectors = context_.Buffer(StepBuffer::kValue);
  float* const rotated = context_.Buffer(StepBuffer::kKey);
  if (q_a_norm_ == nullptr) {
    RETURN_IF_ERROR(context_.Project(
        x, {{q_, heads}, {vector_, vectors}, {rotated_, rotated}}));
  } else {
    // There are no other queries yet.
    float* const small = context_.Buffer(StepBuffer::kQuery);
    RETURN_IF_ERROR(context_.Project(
        x, {{q_a_, small}, {vector_, vectors}, {rotated_, rotated}}));
    std::byte* const packed = context_.PackedInputs(latent_.query_rank);
    RETURN_IF_ERROR(Norm(small, q_a_norm_, latent_.query_rank, packed));
    RETURN_IF_ERROR(context_.Project({small, packed}, {{q_, heads}}));
  }
  return Norm(vectors, vector_norm_, latent_.rank, /*packed=*/nullptr);
}

absl::Status LatentAttentionMixer::StoreRows(const StepBatch& batch) {
  const int64_t n_rows = context_.n_rows();
  float* const rotated = context_.Buffer(StepBuffer::kKey);
  RETURN_IF_ERROR(
      context_.backend().Rope({.x = rotated,
                               .angles = context_.Buffer(StepBuffer::kAngles),
                               .out = rotated,
                               .n_rows = n_rows,
                               .n_heads = 1,
                               .head_dim = NumRotated(),
                               .n_rot = NumRotated(),
                               .style = context_.parameters().rope.style}));
  scratch_.offsets.resize(static_cast<size_t>(2 * n_rows));
  int64_t* const offsets = scratch_.offsets.data();
  const int64_t vector_bytes = kernels::KvBytes(row_type_, latent_.rank);
  for (const SequenceRows& rows : batch.sequences) {
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      const int64_t row = rows.first_row + i;
      offsets[row] =
          cache_.KeyOffset(layer_, rows.slot, rows.first_position + i);
      offsets[n_rows + row] = offsets[row] + vector_bytes;
    }
  }
  const auto store = [&](float* x, int64_t dim, const int64_t* at) {
    RETURN_IF_ERROR(Transform(x, dim));
    return context_.backend().StoreRows({.x = x,
                                         .n_rows = n_rows,
                                         .dim = dim,
                                         .dtype = row_type_,
                                         .base = cache_.Paged(layer_).pool,
                                         .offsets = at});
  };
  RETURN_IF_ERROR(
      store(context_.Buffer(StepBuffer::kValue), latent_.rank, offsets));
  return store(rotated, NumRotated(), offsets + n_rows);
}

absl::Status LatentAttentionMixer::WidenQueries(StepBuffer angles, float* out) {
  const float* const plain = context_.Buffer(StepBuffer::kHeads);
  const int64_t n_kept = latent_.key_dim - NumRotated();
  RETURN_IF_ERROR(
      context_.backend().HeadMatMul({.w = keys_,
                                     .n_rows = context_.n_rows(),
                                     .n_heads = n_heads_,
                                     .x = plain,
                                     .x_stride = latent_.key_dim,
                                     .out = out,
                                     .out_stride = shape_.head_dim}));
  RETURN_IF_ERROR(
      context_.backend().Rope({.x = plain + n_kept,
                               .angles = context_.Buffer(angles),
                               .out = out + latent_.rank,
                               .n_rows = context_.n_rows(),
                               .n_heads = n_heads_,
                               .head_dim = NumRotated(),
                               .n_rot = NumRotated(),
                               .style = context_.parameters().rope.style,
                               .x_stride = latent_.key_dim,
                               .out_stride = shape_.head_dim}));
  return Transform(out, n_heads_ * shape_.head_dim);
}

absl::Status LatentAttentionMixer::Attend(const StepBatch& batch) {
  float* const q = context_.Buffer(StepBuffer::kQuery);
  float* q_prefix = q;
  RETURN_IF_ERROR(WidenQueries(StepBuffer::kAngles, q));
  if (context_.HasPrefixQueries(batch)) {
    q_prefix = context_.Buffer(StepBuffer::kPrefixQuery);
    RETURN_IF_ERROR(WidenQueries(StepBuffer::kPrefixAngles, q_prefix));
  }
  // In the last layer only sampled rows are read.
  const bool keeps_all = KeepsAllRows(context_, batch, layer_);
  scratch_.ListSegments(batch, cache_, /*is_cut=*/!keeps_all, std::nullopt);
  if (!scratch_.segments.empty()) {
    RETURN_IF_ERROR(context_.backend().Attention(
        {.q = q,
         .q_prefix = q_prefix,
         .out = context_.Attended(),
         .n_heads = n_heads_,
         .n_kv_heads = 1,
         .head_dim = shape_.head_dim,
         .scale = context_.parameters().attention_scale,
         .k_type = row_type_,
         .v_type = row_type_,
         .segments = scratch_.segments,
         .is_ring = false,
         .paged = cache_.Paged(layer_),
         .chunk_k = nullptr,
         .chunk_v = nullptr,
         .soft_cap = context_.parameters().score_cap,
         .value_dim = latent_.rank}));
    RETURN_IF_ERROR(Transform(context_.Attended(), n_heads_ * latent_.rank));
  }
  if (keeps_all) return absl::OkStatus();
  return context_.KeepSampled(batch, n_heads_ * latent_.rank);
}

}  // namespace plimsoll::worker
