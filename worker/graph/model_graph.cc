#include "worker/graph/model_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

absl::StatusOr<double> PositiveFloat(const planner::GgufHeader& header,
                                     const std::string& key, double fallback) {
  ASSIGN_OR_RETURN(const std::optional<double> value, header.Float(key));
  const double result = value.value_or(fallback);
  if (!std::isfinite(result) || result <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be a positive number, got ", result));
  }
  return result;
}

absl::StatusOr<RopeParameters> ReadRope(const planner::GgufHeader& header,
                                        const std::string& architecture,
                                        int64_t head_dim,
                                        kernels::RopeStyle style) {
  const std::string prefix = architecture + ".rope.";
  RopeParameters rope = {
      .base = 0, .scale = 1.0, .n_rot = head_dim, .style = style};
  ASSIGN_OR_RETURN(rope.base,
                   PositiveFloat(header, prefix + "freq_base", 10'000));
  ASSIGN_OR_RETURN(const auto type, header.String(prefix + "scaling.type"));
  const std::string kind = type.value_or("linear");
  if (kind != "linear" && kind != "none") {
    return absl::UnimplementedError(
        absl::StrCat(prefix, "scaling.type \"", kind,
                     "\" cannot be run by this build (linear and none can)"));
  }
  if (kind == "linear") {
    ASSIGN_OR_RETURN(const double factor,
                     PositiveFloat(header, prefix + "scaling.factor", 1.0));
    rope.scale = 1.0 / factor;
  }
  ASSIGN_OR_RETURN(const auto n_rot, header.Int(prefix + "dimension_count"));
  rope.n_rot = n_rot.value_or(head_dim);
  if (rope.n_rot <= 0 || rope.n_rot > head_dim || rope.n_rot % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        prefix, "dimension_count must be even and within head_dim ", head_dim,
        ", got ", rope.n_rot));
  }
  return rope;
}

const float* FindVector(const ModelParts& parts, absl::string_view name) {
  const auto& weights = parts.shape->weights;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].name != name) continue;
    return reinterpret_cast<const float*>(
        parts.arena->Region(*parts.plan, "weights").data +
        parts.plan->weights[i].offset);
  }
  return nullptr;
}

ModelGraph::ModelGraph(const ModelParts& parts,
                       const GraphParameters& parameters)
    : parts_(parts),
      parameters_(parameters),
      workspace_(parts.arena->Region(*parts.plan, "workspace")),
      weights_(parts.arena->Region(*parts.plan, "weights")),
      logits_(reinterpret_cast<float*>(
          parts.arena->Region(*parts.plan, "logits").data)) {
  const auto rows = static_cast<size_t>(parts.plan->n_rows);
  // Keys and values in two places.
  offsets_.reserve(4 * rows);
  more_offsets_.reserve(rows);
  segments_.reserve(rows);
  if (!HasLogits()) return;
  output_ =
      Matrix(parts.shape->tied_output ? "token_embd.weight" : "output.weight");
}

kernels::WeightMatrix ModelGraph::Matrix(absl::string_view name) const {
  const auto& weights = parts_.shape->weights;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].name != name) continue;
    return {.dtype = weights[i].dtype,
            .rows = weights[i].rows,
            .cols = weights[i].cols,
            .data = weights_.data + parts_.plan->weights[i].offset};
  }
  PLIMSOLL_CHECK(false, "ShapeFromGguf checked that every weight exists");
}

const float* ModelGraph::Vector(absl::string_view name) const {
  return reinterpret_cast<const float*>(Matrix(name).data);
}

std::byte* ModelGraph::Bytes(StepBuffer buffer) const {
  return workspace_.data + parts_.plan->workspace[buffer].offset;
}

absl::Status ModelGraph::Step(const StepBatch& batch) {
  n_rows_ = static_cast<int64_t>(batch.tokens.size());
  PLIMSOLL_CHECK(n_rows_ > 0 && n_rows_ <= parts_.plan->n_rows,
                 "the scheduler keeps to the plan's rows");
  residual_ = Buffer(StepBuffer::kResidual);
  attended_ = Buffer(StepBuffer::kAttention);
  added_weight_ = nullptr;  // a step that failed may have left one
  const int64_t dim = parts_.shape->model_dim;
  const auto n = static_cast<size_t>(n_rows_ * dim);
  const auto first = static_cast<size_t>(batch.first_row * dim);
  const kernels::BufferView rows = {Bytes(StepBuffer::kResidual),
                                    static_cast<int64_t>(n * sizeof(float))};
  // Both copies are outside of the piece that a backend starts at once.
  if (!parts_.input.empty()) {
    RETURN_IF_ERROR(parts_.backend->Upload(
        std::as_bytes(parts_.input.subspan(first, n)), rows));
  }
  absl::Status status;
  if (batch.only_decodes) status = parts_.backend->BeginStep(n_rows_);
  if (status.ok()) status = Compute(batch);
  status.Update(parts_.backend->EndStep());
  if (!status.ok() || HasLogits()) return status;
  return parts_.backend->Download(
      rows, std::as_writable_bytes(parts_.output.subspan(first, n)));
}

absl::Status ModelGraph::Compute(const StepBatch& batch) {
  RETURN_IF_ERROR(ComputeAngles(batch.positions, StepBuffer::kAngles));
  // Where decodes have them anyway, a sequence that rolls changes nothing in
  // the list of a step's operations, which a device keeps.
  const bool keeps_lists = !parts_.backend->Device().step_rows.empty();
  if (batch.has_rolled_prefix || (keeps_lists && batch.only_decodes)) {
    RETURN_IF_ERROR(
        ComputeAngles(batch.prefix_positions, StepBuffer::kPrefixAngles));
  }
  if (parts_.input.empty()) {
    RETURN_IF_ERROR(
        parts_.backend->GetRows({.table = Matrix("token_embd.weight"),
                                 .tokens = batch.tokens.data(),
                                 .n_rows = n_rows_,
                                 .scale = parameters_.embedding_scale,
                                 .out = Residual()}));
  }
  for (int64_t il = parts_.first_layer; il < EndLayer(); ++il) {
    RETURN_IF_ERROR(AttentionBlock(batch, il));
    if (n_rows_ > 0) RETURN_IF_ERROR(FfnBlock(il));
  }
  if (added_weight_ != nullptr) {
    RETURN_IF_ERROR(parts_.backend->RmsNorm(AddedNorm()));
  }
  if (HasLogits()) return StepLogits(batch);
  return parts_.backend->Synchronize();
}

absl::Status ModelGraph::ComputeAngles(const std::vector<int64_t>& positions,
                                       StepBuffer buffer) {
  const bool has_windows =
      std::any_of(parts_.shape->layers.begin(), parts_.shape->layers.end(),
                  [](const auto& layer) { return layer.window > 0; });
  float* out = Buffer(buffer);
  for (const RopeParameters* rope :
       {&parameters_.rope, &parameters_.window_rope}) {
    RETURN_IF_ERROR(
        parts_.backend->RopeAngles({.positions = positions.data(),
                                    .n_rows = n_rows_,
                                    .n_rot = rope->n_rot,
                                    .base = rope->base,
                                    .scale = rope->scale,
                                    .freq_factors = rope->freq_factors,
                                    .magnitude = 1.0f,
                                    .out = out}));
    if (!has_windows) break;
    out += n_rows_ * rope->n_rot;
  }
  return absl::OkStatus();
}

const RopeParameters& ModelGraph::RopeOf(int64_t layer) const {
  return Layer(layer).window > 0 ? parameters_.window_rope : parameters_.rope;
}

const float* ModelGraph::AnglesOf(int64_t layer, StepBuffer buffer) const {
  const float* angles = Buffer(buffer);
  if (Layer(layer).window > 0) angles += n_rows_ * parameters_.rope.n_rot;
  return angles;
}

std::byte* ModelGraph::PackedInputs(int64_t dim, StepBuffer buffer) const {
  const bool is_packable = dim % parts_.backend->Device().activation_block == 0;
  if (parts_.precision == Precision::kExact || !is_packable) return nullptr;
  return Bytes(buffer);
}

absl::StatusOr<ModelGraph::Input> ModelGraph::NormedResidual(
    const float* weight) {
  const int64_t dim = parts_.shape->model_dim;
  std::byte* packed = PackedInputs(dim);
  const kernels::RmsNormArgs norm = {.x = Residual(),
                                     .weight = weight,
                                     .out = Normed(),
                                     .n_rows = n_rows_,
                                     .dim = dim,
                                     .eps = parameters_.rms_eps,
                                     .accumulate = false,
                                     .packed = packed};
  RETURN_IF_ERROR(added_weight_ == nullptr
                      ? parts_.backend->RmsNorm(norm)
                      : parts_.backend->AddNorm({AddedNorm(), norm}));
  return Input{Normed(), packed};
}

kernels::RmsNormArgs ModelGraph::AddedNorm() {
  return {.x = Normed(),
          .weight = std::exchange(added_weight_, nullptr),
          .out = Residual(),
          .n_rows = n_rows_,
          .dim = parts_.shape->model_dim,
          .eps = parameters_.rms_eps,
          .accumulate = true};
}

kernels::MatMulArgs ModelGraph::ProductOf(const Input& input,
                                          const Projection& projection) const {
  return {.w = projection.w,
          .x = input.x,
          .packed = input.packed,
          .out = projection.out,
          .n_rows = n_rows_,
          .accumulate = projection.accumulate};
}

absl::Status ModelGraph::Project(
    const Input& input, std::initializer_list<Projection> projections) {
  PLIMSOLL_CHECK(projections.size() <= kMaxProjections,
                 "no input has more products");
  std::array<kernels::MatMulArgs, kMaxProjections> products;
  size_t n = 0;
  for (const Projection& projection : projections) {
    products.at(n++) = ProductOf(input, projection);
  }
  return parts_.backend->MatMuls(std::span(products).first(n));
}

namespace {

// Whether the step's rows may enter their rings before attention reads these. A
// row takes the cell of the position a window before, which it does not attend
// itself; rows of the same chunk before it do. Drafts may not enter at all.
bool EntersRingsAtOnce(const StepBatch& batch) {
  return std::ranges::all_of(batch.sequences, [](const SequenceRows& rows) {
    return rows.n_rows == 1 && rows.n_draft == 0;
  });
}

}  // namespace

std::byte* ModelGraph::PlaceInPages(const StepBatch& batch, int64_t layer) {
  offsets_.resize(static_cast<size_t>(2 * n_rows_));
  int64_t* const k = offsets_.data();
  int64_t* const v = k + n_rows_;
  for (const SequenceRows& rows : batch.sequences) {
    for (int64_t i = 0; i < rows.n_rows; ++i) {
      const int64_t position = rows.first_position + i;
      const int64_t row = rows.first_row + i;
      k[row] = parts_.cache->KeyOffset(layer, rows.slot, position);
      v[row] = parts_.cache->ValueOffset(layer, rows.slot, position);
    }
  }
  return parts_.cache->Paged(layer).pool;
}

std::byte* ModelGraph::PlaceInChunk(const StepBatch& batch, int64_t layer) {
  const int64_t k_bytes = parts_.cache->KeyRowBytes(layer);
  const int64_t v_bytes = parts_.cache->ValueRowBytes(layer);
  std::byte* const base = Bytes(StepBuffer::kChunkKey);
  const bool has_rings = EntersRingsAtOnce(batch);
  offsets_.resize(static_cast<size_t>((has_rings ? 4 : 2) * n_rows_));
  int64_t* const k = offsets_.data();
  int64_t* const v = k + n_rows_;
  for (int64_t row = 0; row < n_rows_; ++row) {
    k[row] = row * k_bytes;
    v[row] = Bytes(StepBuffer::kChunkValue) - base + row * v_bytes;
  }
  if (!has_rings) return base;
  // Rings lie in the same arena.
  int64_t* const ring_k = v + n_rows_;
  int64_t* const ring_v = ring_k + n_rows_;
  for (const SequenceRows& rows : batch.sequences) {
    const kernels::RingKv ring = parts_.cache->Ring(layer, rows.slot);
    const int64_t cell = rows.first_position % ring.window;
    ring_k[rows.first_row] = ring.k - base + cell * k_bytes;
    ring_v[rows.first_row] = ring.v - base + cell * v_bytes;
  }
  return base;
}

absl::StatusOr<const float*> ModelGraph::PrepareHeads(const StepBatch& batch,
                                                      int64_t layer,
                                                      const HeadNorms& norms) {
  const RopeParameters& rope = RopeOf(layer);
  const bool is_ring = parts_.cache->IsRing(layer);
  // Rings hold no prefix: by the first eviction it is beyond their window.
  const bool has_prefix = batch.has_rolled_prefix && !is_ring;
  float* const q_prefix =
      has_prefix ? Buffer(StepBuffer::kPrefixQuery) : nullptr;
  std::byte* const base =
      is_ring ? PlaceInChunk(batch, layer) : PlaceInPages(batch, layer);
  RETURN_IF_ERROR(parts_.backend->PrepareHeads(
      {.q = Query(),
       .q_prefix = q_prefix,
       .k = Key(),
       .v = Value(),
       .q_norm = norms.q,
       .k_norm = norms.k,
       .angles = AnglesOf(layer, StepBuffer::kAngles),
       .prefix_angles =
           has_prefix ? AnglesOf(layer, StepBuffer::kPrefixAngles) : nullptr,
       .n_rows = n_rows_,
       .n_heads = parts_.shape->n_heads,
       .n_kv_heads = Layer(layer).n_kv_heads,
       .head_dim = Layer(layer).head_dim,
       .n_rot = rope.n_rot,
       .style = rope.style,
       .eps = parameters_.rms_eps,
       .k_type = parts_.plan->options.k_type,
       .v_type = parts_.plan->options.v_type,
       .base = base,
       .offsets = offsets_.data(),
       .n_places = std::ssize(offsets_) / (2 * n_rows_)}));
  return has_prefix ? q_prefix : Query();
}

absl::Status ModelGraph::MoveChunkToRings(const StepBatch& batch,
                                          int64_t layer) {
  // All sequences' rows in one copy: where theirs go is counted from the first
  // one's ring, in the same arena.
  const auto move = [&](StepBuffer from, std::byte* kernels::RingKv::*cells,
                        int64_t row_bytes) {
    std::byte* const base =
        parts_.cache->Ring(layer, batch.sequences.front().slot).*cells;
    offsets_.clear();
    more_offsets_.clear();
    const auto add = [&](int64_t first_row, int64_t n, int64_t first_position,
                         const kernels::RingKv& to) {
      for (int64_t i = 0; i < n; ++i) {
        offsets_.push_back((first_row + i) * row_bytes);
        more_offsets_.push_back(to.*cells - base +
                                (first_position + i) % to.window * row_bytes);
      }
    };
    for (const SequenceRows& rows : batch.sequences) {
      const kernels::RingKv ring = parts_.cache->Ring(layer, rows.slot);
      // Of a chunk longer than the window only the last `window` rows are kept,
      // so no cell is written twice.
      const int64_t n_certain = rows.n_rows - rows.n_draft;
      const int64_t n = std::min(n_certain, ring.window);
      const int64_t skipped = n_certain - n;
      add(rows.first_row + skipped, n, rows.first_position + skipped, ring);
      if (rows.n_draft == 0) continue;
      add(rows.first_row + n_certain, rows.n_draft,
          rows.first_position + n_certain,
          parts_.cache->Drafts(layer, rows.slot));
    }
    return parts_.backend->CopyRows(
        {.src = Bytes(from),
         .src_offsets = offsets_.data(),
         .dst = base,
         .dst_offsets = more_offsets_.data(),
         .n_rows = static_cast<int64_t>(offsets_.size()),
         .row_bytes = row_bytes});
  };
  RETURN_IF_ERROR(move(StepBuffer::kChunkKey, &kernels::RingKv::k,
                       parts_.cache->KeyRowBytes(layer)));
  return move(StepBuffer::kChunkValue, &kernels::RingKv::v,
              parts_.cache->ValueRowBytes(layer));
}

namespace {

// Whether the last layer goes on with every row of the step.
bool KeepsAllRows(const StepBatch& batch, int64_t n_rows) {
  return batch.keeps_all_rows ||
         static_cast<int64_t>(batch.sampled_rows.size()) == n_rows;
}

// Of a sequence's rows, those that are sampled: its last ones.
int64_t CountSampled(const StepBatch& batch, const SequenceRows& rows) {
  const auto from = [&](int64_t row) {
    return std::ranges::lower_bound(batch.sampled_rows, row);
  };
  return from(rows.first_row + rows.n_rows) - from(rows.first_row);
}

}  // namespace

absl::StatusOr<ModelGraph::Input> ModelGraph::SelfAttention(
    const StepBatch& batch, int64_t layer, const HeadNorms& norms) {
  const planner::LayerShape& shape = Layer(layer);
  const bool is_ring = parts_.cache->IsRing(layer);
  ASSIGN_OR_RETURN(const float* const q_prefix,
                   PrepareHeads(batch, layer, norms));

  // Of the last layer only sampled rows have a reader; those of a ring need the
  // others beside them.
  const bool is_last = HasLogits() && layer + 1 == EndLayer();
  const bool keeps_all = !is_last || KeepsAllRows(batch, n_rows_);
  const bool is_cut = !keeps_all && (!is_ring || batch.sampled_rows.empty());
  const int64_t dim = parts_.shape->n_heads * shape.head_dim;
  std::byte* const packed = keeps_all ? PackedInputs(dim) : nullptr;
  segments_.clear();
  for (const SequenceRows& rows : batch.sequences) {
    const int64_t n_read = is_cut ? CountSampled(batch, rows) : rows.n_rows;
    if (n_read == 0) continue;
    const int64_t n_skipped = rows.n_rows - n_read;
    kernels::AttentionSegment segment = {
        .first_row = rows.first_row + n_skipped,
        .n_rows = n_read,
        .first_position = rows.first_position + n_skipped,
        .pages = parts_.cache->Pages(rows.slot),
        .ring = {},
        .live_begin = parts_.cache->LiveBegin(rows.slot),
        .is_prompt = rows.is_prompt};
    if (is_ring) segment.ring = parts_.cache->Ring(layer, rows.slot);
    segments_.push_back(segment);
  }
  if (!segments_.empty()) {
    RETURN_IF_ERROR(parts_.backend->Attention(
        {.q = Query(),
         .q_prefix = q_prefix,
         .out = Attended(),
         .n_heads = parts_.shape->n_heads,
         .n_kv_heads = shape.n_kv_heads,
         .head_dim = shape.head_dim,
         .scale = parameters_.attention_scale,
         .k_type = parts_.plan->options.k_type,
         .v_type = parts_.plan->options.v_type,
         .segments = segments_,
         .is_ring = is_ring,
         .paged = is_ring ? kernels::PagedKv{} : parts_.cache->Paged(layer),
         .chunk_k = Bytes(StepBuffer::kChunkKey),
         .chunk_v = Bytes(StepBuffer::kChunkValue),
         .packed = packed}));
  }
  if (is_ring && !EntersRingsAtOnce(batch)) {
    RETURN_IF_ERROR(MoveChunkToRings(batch, layer));
  }
  if (keeps_all) return Input{Attended(), packed};
  return KeepSampled(batch, dim);
}

absl::Status ModelGraph::GatherRows(const float* from,
                                    std::span<const int32_t> rows, int64_t dim,
                                    float* to) {
  const int64_t row_bytes = dim * static_cast<int64_t>(sizeof(float));
  offsets_.clear();
  more_offsets_.clear();
  for (const int32_t row : rows) {
    more_offsets_.push_back(static_cast<int64_t>(offsets_.size()) * row_bytes);
    offsets_.push_back(row * row_bytes);
  }
  return parts_.backend->CopyRows(
      {.src = reinterpret_cast<const std::byte*>(from),
       .src_offsets = offsets_.data(),
       .dst = reinterpret_cast<std::byte*>(to),
       .dst_offsets = more_offsets_.data(),
       .n_rows = static_cast<int64_t>(rows.size()),
       .row_bytes = row_bytes});
}

absl::StatusOr<ModelGraph::Input> ModelGraph::KeepSampled(
    const StepBatch& batch, int64_t attended_dim) {
  n_rows_ = static_cast<int64_t>(batch.sampled_rows.size());
  PLIMSOLL_CHECK(n_rows_ <= parts_.plan->n_sampled,
                 "the scheduler keeps to the plan's sampled rows");
  if (n_rows_ == 0) return Input{};
  // Queries have been read.
  RETURN_IF_ERROR(
      GatherRows(attended_, batch.sampled_rows, attended_dim, Query()));
  attended_ = Query();
  float* sampled = Buffer(StepBuffer::kSampled);
  RETURN_IF_ERROR(GatherRows(residual_, batch.sampled_rows,
                             parts_.shape->model_dim, sampled));
  residual_ = sampled;
  std::byte* packed = PackedInputs(attended_dim);
  if (packed != nullptr) {
    RETURN_IF_ERROR(parts_.backend->PackActivations({.x = Attended(),
                                                     .n_rows = n_rows_,
                                                     .dim = attended_dim,
                                                     .out = packed}));
  }
  return Input{Attended(), packed};
}

absl::StatusOr<ModelGraph::Input> ModelGraph::GatedInput(
    const Input& input, const kernels::WeightMatrix& gate,
    const kernels::WeightMatrix& up, DType reader) {
  ASSIGN_OR_RETURN(
      const std::byte* const packed,
      parts_.backend->GatedMatMul({.gate = ProductOf(input, {gate, Gate()}),
                                   .up = ProductOf(input, {up, Up()}),
                                   .activation = parameters_.activation,
                                   .packed = PackedInputs(gate.rows),
                                   .keeps_floats = IsFloatType(reader)}));
  return Input{Gate(), packed};
}

absl::Status ModelGraph::StepLogits(const StepBatch& batch) {
  if (batch.sampled_rows.empty()) return parts_.backend->Synchronize();
  float* sampled = Buffer(StepBuffer::kSampled);
  if (residual_ != sampled) {
    RETURN_IF_ERROR(GatherRows(residual_, batch.sampled_rows,
                               parts_.shape->model_dim, sampled));
  }
  return SampledLogits(static_cast<int64_t>(batch.sampled_rows.size()),
                       batch.first_sampled, batch.top);
}

absl::Status ModelGraph::ComputeLogits(std::span<const int32_t> rows) {
  float* sampled = Buffer(StepBuffer::kSampled);
  PLIMSOLL_CHECK(residual_ != sampled, "the step kept all rows");
  RETURN_IF_ERROR(
      GatherRows(residual_, rows, parts_.shape->model_dim, sampled));
  return SampledLogits(static_cast<int64_t>(rows.size()), 0, {});
}

absl::Status ModelGraph::SampledLogits(
    int64_t n_sampled, int64_t first,
    std::span<const kernels::TopOutputs> top) {
  PLIMSOLL_CHECK(first + n_sampled <= parts_.plan->n_sampled,
                 "the scheduler keeps to the plan's sampled rows");
  const int64_t dim = parts_.shape->model_dim;
  float* sampled = Buffer(StepBuffer::kSampled);
  std::byte* packed = PackedInputs(dim, StepBuffer::kSampledActivations);
  RETURN_IF_ERROR(
      parts_.backend->RmsNorm({.x = sampled,
                               .weight = Vector("output_norm.weight"),
                               .out = sampled,
                               .n_rows = n_sampled,
                               .dim = dim,
                               .eps = parameters_.rms_eps,
                               .accumulate = false,
                               .packed = packed}));
  RETURN_IF_ERROR(parts_.backend->MatMul({.w = output_,
                                          .x = sampled,
                                          .packed = packed,
                                          .out = logits_ + first * output_.rows,
                                          .n_rows = n_sampled,
                                          .accumulate = false,
                                          .top = top}));
  return parts_.backend->Synchronize();
}

}  // namespace plimsoll::worker
