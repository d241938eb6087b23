#include "worker/graph/attention/attention_mixer.h"

#include <algorithm>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/hadamard.h"

namespace plimsoll::worker {
namespace {

using planner::StepBuffer;

// True if the step's rows may enter their rings before attention reads the
// rings. A row takes the cell of the position one window before, which the row
// itself does not attend to; earlier rows of the same chunk do. Drafts may
// never enter at once.
bool EntersRingsAtOnce(const StepBatch& batch) {
  return std::ranges::all_of(batch.sequences, [](const SequenceRows& rows) {
    return rows.n_rows == 1 && rows.n_draft == 0;
  });
}

// The rotation of a layer.
RopeParameters RopeOf(const planner::Architecture& architecture, int64_t layer,
                      const StepContext& context) {
  RopeParameters rope = context.Layer(layer).window > 0
                            ? context.parameters().window_rope
                            : context.parameters().rope;
  const int64_t period = architecture.unrotated_period;
  if (period > 0 && layer % period == period - 1) rope.n_rot = 0;
  return rope;
}

// True if the layer norms its heads without a weight.
bool NormsPlainHeads(const planner::Architecture& architecture,
                     const RopeParameters& rope, int64_t n_experts) {
  return architecture.head_norms == planner::HeadNorms::kPlain &&
         rope.n_rot > 0 &&
         (n_experts == 0 || n_experts != architecture.unnormed_experts);
}

// True if no layer of the part after `layer` reads the same keys and values.
bool IsLastReader(const StepContext& context, int64_t layer) {
  const int64_t source = context.Layer(layer).kv_source;
  for (int64_t il = layer + 1; il < context.EndLayer(); ++il) {
    if (context.Layer(il).kv_source == source) return false;
  }
  return true;
}

}  // namespace

AttentionMixer::AttentionMixer(const planner::Architecture& architecture,
                               int64_t layer, StepContext& context,
                               AttentionScratch& scratch)
    : context_(context),
      scratch_(scratch),
      layer_(layer),
      shape_(context.Layer(layer)),
      cache_(*context.inputs().cache),
      is_ring_(cache_.IsRing(layer)),
      has_parallel_ffn_(architecture.has_parallel_ffn),
      has_gates_(architecture.has_attention_gates),
      rope_(RopeOf(architecture, layer, context)),
      source_(context.inputs().first_layer + shape_.kv_source),
      is_last_reader_(IsLastReader(context, layer)) {
  const std::string p = absl::StrCat("blk.", layer, ".");
  if (is_ring_) {
    rings_ = {.layer = source_,
              .chunk = architecture.windows_are_chunks ? shape_.window : 0};
  }
  if (architecture.has_pre_norms) {
    norm_ = context.Vector(p + "attn_norm.weight");
  }
  q_ = context.Matrix(p + "attn_q.weight");
  if (OwnsKv()) {
    k_ = context.Matrix(p + "attn_k.weight");
    owns_values_ = context.Has(p + "attn_v.weight");
    if (owns_values_) v_ = context.Matrix(p + "attn_v.weight");
    norms_values_ = architecture.has_value_norms;
  }
  norms_heads_ =
      NormsPlainHeads(architecture, rope_, context.inputs().shape->n_experts);
  if (architecture.growing_queries == planner::GrowingQueries::kUnrotated) {
    grows_queries_ = rope_.n_rot == 0;
  }
  end_.w = context.Matrix(p + "attn_output.weight");
  const auto bias = [&](absl::string_view name) {
    return FindVector(context.inputs(), absl::StrCat(p, name));
  };
  q_bias_ = bias("attn_q.bias");
  k_bias_ = bias("attn_k.bias");
  v_bias_ = bias("attn_v.bias");
  end_.bias = bias("attn_output.bias");
  const bool is_joint =
      architecture.head_norms == planner::HeadNorms::kTogether;
  const float*& plain_q_norm = has_gates_ ? gated_q_norm_ : q_norm_;
  const float*& q_norm = is_joint ? joint_q_norm_ : plain_q_norm;
  const float*& k_norm = is_joint ? joint_k_norm_ : k_norm_;
  q_norm = FindVector(context.inputs(), p + "attn_q_norm.weight");
  k_norm = FindVector(context.inputs(), p + "attn_k_norm.weight");
  if (architecture.has_post_norms) {
    end_.post_norm = context.Vector(p + "post_attention_norm.weight");
  }
  if (architecture.has_sinks) sinks_ = context.Vector(p + "attn_sinks.weight");
  if (architecture.has_low_rank_branch) branch_.emplace(layer, norm_, context);
}

absl::string_view AttentionMixer::Missing(
    const planner::Architecture& architecture) {
  // PrepareHeads would norm what has grown.
  if (architecture.growing_queries != planner::GrowingQueries::kNone &&
      architecture.head_norms != planner::HeadNorms::kNone &&
      architecture.head_norms != planner::HeadNorms::kPlain) {
    return "norms of queries that grow";
  }
  // The norm makes the copy.
  if (architecture.values_may_be_keys && !architecture.has_value_norms) {
    return "values that are keys and are not normed";
  }
  // The norm takes queries out from between the gates.
  if (architecture.has_attention_gates &&
      architecture.head_norms != planner::HeadNorms::kEach) {
    return "gates of attention and no norms of heads";
  }
  // Its sum is divided as attention's norm is added.
  if (architecture.has_low_rank_branch &&
      !(architecture.has_pre_norms && architecture.has_post_norms)) {
    return "a branch beside attention without norms before and after";
  }
  return "";
}

bool AttentionMixer::Reads(const planner::Architecture& architecture,
                           absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {"attn_norm.weight", "attn_q.weight",
                                            "attn_k.weight", "attn_v.weight",
                                            "attn_output.weight"};
  constexpr absl::string_view kHeadNorms[] = {"attn_q_norm.weight",
                                              "attn_k_norm.weight"};
  constexpr absl::string_view kBiases[] = {"attn_q.bias", "attn_k.bias",
                                           "attn_v.bias", "attn_output.bias"};
  return absl::c_linear_search(kTensors, tensor) ||
         absl::c_linear_search(kBiases, tensor) ||
         (architecture.head_norms != planner::HeadNorms::kNone &&
          absl::c_linear_search(kHeadNorms, tensor)) ||
         (architecture.has_sinks && tensor == "attn_sinks.weight") ||
         (architecture.has_low_rank_branch && LowRankBranch::Reads(tensor)) ||
         (architecture.has_post_norms &&
          tensor == "post_attention_norm.weight");
}

absl::Status AttentionMixer::Add(const StepBatch& batch) {
  ASSIGN_OR_RETURN(const ProductInput x, context_.SublayerInput(norm_));
  RETURN_IF_ERROR(ProjectHeads(x));
  if (branch_) RETURN_IF_ERROR(branch_->Add(x));
  RETURN_IF_ERROR(ScaleHeads());
  ASSIGN_OR_RETURN(const ProductInput attended, Attend(batch));
  if (context_.n_rows() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(context_.AddToResidual(attended, end_));
  if (branch_) context_.ScaleResidual(1 / std::numbers::sqrt2_v<float>);
  return absl::OkStatus();
}

absl::Status AttentionMixer::ProjectHeads(const ProductInput& x) {
  float* const q =
      context_.Buffer(has_gates_ ? StepBuffer::kHeads : StepBuffer::kQuery);
  float* const k = context_.Buffer(StepBuffer::kKey);
  float* const v = context_.Buffer(StepBuffer::kValue);
  if (!OwnsKv()) {
    RETURN_IF_ERROR(context_.Project(x, {{q_, q}}));
  } else if (!owns_values_) {
    RETURN_IF_ERROR(context_.Project(x, {{q_, q}, {k_, k}}));
  } else {
    RETURN_IF_ERROR(context_.Project(x, {{q_, q}, {k_, k}, {v_, v}}));
  }
  RETURN_IF_ERROR(context_.AddBiases(
      {{q_bias_, q, q_.rows}, {k_bias_, k, k_.rows}, {v_bias_, v, v_.rows}}));
  if (!has_gates_) return absl::OkStatus();
  return context_.backend().RmsNorm(
      {.x = q,
       .weight = gated_q_norm_,
       .out = context_.Buffer(StepBuffer::kQuery),
       .n_rows = context_.n_rows() * context_.inputs().shape->n_heads,
       .dim = shape_.head_dim,
       .eps = context_.parameters().rms_eps,
       .accumulate = false,
       .x_stride = 2 * shape_.head_dim});
}

absl::Status AttentionMixer::ScaleHeads() {
  float* const q = context_.Buffer(StepBuffer::kQuery);
  float* const k = context_.Buffer(StepBuffer::kKey);
  if (norms_values_) RETURN_IF_ERROR(NormValues());
  if (norms_heads_) {
    RETURN_IF_ERROR(NormPlain(q, context_.inputs().shape->n_heads, q));
    if (OwnsKv()) RETURN_IF_ERROR(NormPlain(k, shape_.n_kv_heads, k));
  }
  RETURN_IF_ERROR(NormTogether(q, joint_q_norm_, q_.rows));
  RETURN_IF_ERROR(NormTogether(k, joint_k_norm_, k_.rows));
  // A rotation does not change the factor of what it rotates.
  if (!grows_queries_ || scratch_.query_factors.empty()) {
    return absl::OkStatus();
  }
  return context_.backend().ScaleRows({.x = q,
                                       .factors = scratch_.query_factors.data(),
                                       .n_rows = context_.n_rows(),
                                       .dim = q_.rows});
}

absl::Status AttentionMixer::NormValues() {
  float* const v = context_.Buffer(StepBuffer::kValue);
  // If values are the keys, they are the keys before the keys' norm.
  return NormPlain(owns_values_ ? v : context_.Buffer(StepBuffer::kKey),
                   shape_.n_kv_heads, v);
}

absl::Status AttentionMixer::NormPlain(const float* heads, int64_t n_heads,
                                       float* out) {
  return context_.backend().RmsNorm({.x = heads,
                                     .weight = nullptr,
                                     .out = out,
                                     .n_rows = context_.n_rows() * n_heads,
                                     .dim = shape_.head_dim,
                                     .eps = context_.parameters().rms_eps,
                                     .accumulate = false});
}

absl::Status AttentionMixer::NormTogether(float* heads, const float* weight,
                                          int64_t dim) {
  if (weight == nullptr) return absl::OkStatus();
  return context_.backend().RmsNorm({.x = heads,
                                     .weight = weight,
                                     .out = heads,
                                     .n_rows = context_.n_rows(),
                                     .dim = dim,
                                     .eps = context_.parameters().rms_eps,
                                     .accumulate = false});
}

const float* AttentionMixer::Angles(StepBuffer buffer) const {
  const float* angles = context_.Buffer(buffer);
  if (shape_.window == 0) return angles;
  return angles + context_.n_rows() * context_.parameters().rope.n_rot;
}

std::byte* AttentionMixer::PlaceInPages(const StepBatch& batch) {
  const int64_t n_rows = context_.n_rows();
  scratch_.offsets.resize(static_cast<size_t>(2 * n_rows));
  int64_t* const k = scratch_.offsets.data();
  int64_t* const v = k + n_rows;
  for (const SequenceRows& rows : batch.sequences) {
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      const int64_t position = rows.first_position + i;
      const int64_t row = rows.first_row + i;
      k[row] = cache_.KeyOffset(layer_, rows.slot, position);
      v[row] = cache_.ValueOffset(layer_, rows.slot, position);
    }
  }
  return cache_.Paged(layer_).pool;
}

std::byte* AttentionMixer::PlaceInChunk(const StepBatch& batch) {
  const int64_t n_rows = context_.n_rows();
  const int64_t k_bytes = cache_.KeyRowBytes(layer_);
  const int64_t v_bytes = cache_.ValueRowBytes(layer_);
  std::byte* const base = context_.Bytes(StepBuffer::kChunkKey);
  const bool has_rings = EntersRingsAtOnce(batch);
  scratch_.offsets.resize(static_cast<size_t>((has_rings ? 4 : 2) * n_rows));
  int64_t* const k = scratch_.offsets.data();
  int64_t* const v = k + n_rows;
  for (int64_t row = 0; row < n_rows; ++row) {
    k[row] = row * k_bytes;
    v[row] = context_.Bytes(StepBuffer::kChunkValue) - base + row * v_bytes;
  }
  if (!has_rings) return base;
  // Rings lie in the same arena.
  int64_t* const ring_k = v + n_rows;
  int64_t* const ring_v = ring_k + n_rows;
  for (const SequenceRows& rows : batch.sequences) {
    const kernels::RingKv ring = cache_.Ring(layer_, rows.slot);
    const int64_t cell = rows.first_position % ring.window;
    ring_k[rows.first_row] = ring.k - base + cell * k_bytes;
    ring_v[rows.first_row] = ring.v - base + cell * v_bytes;
  }
  return base;
}

absl::StatusOr<const float*> AttentionMixer::PrepareHeads(
    const StepBatch& batch) {
  const planner::LoadOptions& options = context_.inputs().plan->options;
  // Rings hold no prefix: by the first eviction it is beyond their window.
  const bool has_prefix = batch.has_rolled_prefix && !is_ring_;
  float* const q = context_.Buffer(StepBuffer::kQuery);
  float* const q_prefix =
      has_prefix ? context_.Buffer(StepBuffer::kPrefixQuery) : nullptr;
  std::byte* base = nullptr;
  int64_t n_places = 1;
  if (OwnsKv()) {
    base = is_ring_ ? PlaceInChunk(batch) : PlaceInPages(batch);
    n_places = std::ssize(scratch_.offsets) / (2 * context_.n_rows());
  }
  RETURN_IF_ERROR(context_.backend().PrepareHeads(
      {.q = q,
       .q_prefix = q_prefix,
       .k = context_.Buffer(StepBuffer::kKey),
       .v = context_.Buffer(StepBuffer::kValue),
       .q_norm = q_norm_,
       .k_norm = k_norm_,
       .angles = Angles(StepBuffer::kAngles),
       .prefix_angles =
           has_prefix ? Angles(StepBuffer::kPrefixAngles) : nullptr,
       .n_rows = context_.n_rows(),
       .n_heads = context_.inputs().shape->n_heads,
       .n_kv_heads = OwnsKv() ? shape_.n_kv_heads : 0,
       .head_dim = shape_.head_dim,
       .n_rot = rope_.n_rot,
       .style = rope_.style,
       .eps = context_.parameters().rms_eps,
       .k_type = options.k_type,
       .v_type = options.v_type,
       .base = base,
       .offsets = scratch_.offsets.data(),
       .n_places = n_places}));
  return has_prefix ? q_prefix : q;
}

absl::Status AttentionMixer::MoveChunkToRings(const StepBatch& batch) {
  std::vector<int64_t>& from_offsets = scratch_.offsets;
  std::vector<int64_t>& to_offsets = scratch_.more_offsets;
  // One copy moves all sequences' rows. Its targets count from the first
  // sequence's ring, as all rings are in one arena.
  const auto move = [&](StepBuffer from, std::byte* kernels::RingKv::*cells,
                        int64_t row_bytes) {
    std::byte* const base =
        cache_.Ring(source_, batch.sequences.front().slot).*cells;
    from_offsets.clear();
    to_offsets.clear();
    const auto add = [&](int64_t first_row, int64_t n, int64_t first_position,
                         const kernels::RingKv& to) {
      for (int64_t i = 0; i < n; ++i) {
        from_offsets.push_back((first_row + i) * row_bytes);
        to_offsets.push_back(to.*cells - base +
                             (first_position + i) % to.window * row_bytes);
      }
    };
    for (const SequenceRows& rows : batch.sequences) {
      const kernels::RingKv ring = cache_.Ring(source_, rows.slot);
      // If a chunk is longer than the window, only its last `window` rows are
      // kept, so that no cell is written twice.
      const int64_t n_certain = rows.n_rows - rows.n_draft;
      const int64_t n = std::min(n_certain, ring.window);
      const int64_t skipped = n_certain - n;
      add(rows.first_row + skipped, n, rows.first_position + skipped, ring);
      if (rows.n_draft == 0) continue;
      add(rows.first_row + n_certain, rows.n_draft,
          rows.first_position + n_certain, cache_.Drafts(source_, rows.slot));
    }
    return context_.backend().CopyRows(
        {.src = context_.Bytes(from),
         .src_offsets = from_offsets.data(),
         .dst = base,
         .dst_offsets = to_offsets.data(),
         .n_rows = static_cast<int64_t>(from_offsets.size()),
         .row_bytes = row_bytes});
  };
  RETURN_IF_ERROR(move(StepBuffer::kChunkKey, &kernels::RingKv::k,
                       cache_.KeyRowBytes(source_)));
  return move(StepBuffer::kChunkValue, &kernels::RingKv::v,
              cache_.ValueRowBytes(source_));
}

absl::Status AttentionMixer::ApplyGates() {
  const int64_t head_dim = shape_.head_dim;
  return context_.backend().GatedActivation(
      {.gate = context_.Buffer(StepBuffer::kHeads) + head_dim,
       .up = context_.Attended(),
       .out = context_.Attended(),
       .n_rows = context_.n_rows() * context_.inputs().shape->n_heads,
       .dim = head_dim,
       .activation = kernels::Activation::kSigmoid,
       .gate_stride = 2 * head_dim});
}

absl::Status AttentionMixer::TransformBack() {
  return context_.backend().Hadamard(
      {.x = context_.Attended(),
       .n_rows = context_.n_rows(),
       .dim = context_.inputs().shape->n_heads * shape_.head_dim,
       .width = kernels::HadamardWidth(shape_.head_dim)});
}

absl::StatusOr<ProductInput> AttentionMixer::Attend(const StepBatch& batch) {
  ASSIGN_OR_RETURN(const float* const q_prefix, PrepareHeads(batch));

  // In the last layer only sampled rows are read. Rows of a ring need the
  // others beside them. A parallel FFN reads the norms of all rows.
  const bool keeps_all = KeepsAllRows(context_, batch, layer_) ||
                         (has_parallel_ffn_ && !batch.sampled_rows.empty());
  const bool is_cut = !keeps_all && (!is_ring_ || batch.sampled_rows.empty());
  const int64_t n_heads = context_.inputs().shape->n_heads;
  const int64_t dim = n_heads * shape_.head_dim;
  const planner::LoadOptions& options = context_.inputs().plan->options;
  const bool is_transformed = kernels::IsTransformed(options.v_type);
  const bool is_final = !is_transformed && !has_gates_;
  std::byte* const packed =
      keeps_all && is_final ? context_.PackedInputs(dim) : nullptr;
  scratch_.ListSegments(batch, cache_, is_cut, rings_);
  if (!scratch_.segments.empty()) {
    RETURN_IF_ERROR(context_.backend().Attention(
        {.q = context_.Buffer(StepBuffer::kQuery),
         .q_prefix = q_prefix,
         .out = context_.Attended(),
         .n_heads = n_heads,
         .n_kv_heads = shape_.n_kv_heads,
         .head_dim = shape_.head_dim,
         .scale = context_.parameters().attention_scale,
         .k_type = options.k_type,
         .v_type = options.v_type,
         .segments = scratch_.segments,
         .is_ring = is_ring_,
         .paged = is_ring_ ? kernels::PagedKv{} : cache_.Paged(source_),
         .chunk_k = context_.Bytes(StepBuffer::kChunkKey),
         .chunk_v = context_.Bytes(StepBuffer::kChunkValue),
         .packed = packed,
         .soft_cap = context_.parameters().score_cap,
         .sinks = sinks_}));
    if (is_transformed) RETURN_IF_ERROR(TransformBack());
    if (has_gates_) RETURN_IF_ERROR(ApplyGates());
  }
  if (is_ring_ && is_last_reader_ && !EntersRingsAtOnce(batch)) {
    RETURN_IF_ERROR(MoveChunkToRings(batch));
  }
  if (keeps_all && is_final) {
    return ProductInput{context_.Attended(), packed};
  }
  if (!keeps_all) RETURN_IF_ERROR(context_.KeepSampled(batch, dim));
  return context_.AsInput(context_.Attended(), dim);
}

}  // namespace plimsoll::worker
