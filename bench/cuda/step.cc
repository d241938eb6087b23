// Numbers are small random bytes: what they mean does not matter, but that they
// are neither zero nor NaN.
#include "bench/cuda/step.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "bench/must.h"
#include "kernels/quant/kv_row.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {
namespace {

using bench::Must;

constexpr int64_t kPageTokens = 64;

int64_t PagesOf(int64_t n_tokens) {
  return (n_tokens + kPageTokens - 1) / kPageTokens;
}

}  // namespace

Buffer DecodeStep::Memory(int64_t bytes) {
  absl::StatusOr<Buffer> buffer = backend_->Allocate(bytes);
  Must(buffer.status());
  std::vector<std::byte> piece(
      static_cast<size_t>(std::min(bytes, int64_t{16} << 20)));
  // Bytes of F16 scales and floats that are small and not zero.
  std::mt19937 random(1);
  for (std::byte& byte : piece) byte = static_cast<std::byte>(random() % 32);
  const auto size = static_cast<int64_t>(piece.size());
  for (int64_t at = 0; at < bytes; at += size) {
    const int64_t n = std::min(size, bytes - at);
    Must(backend_->Upload(std::span(piece).first(static_cast<size_t>(n)),
                          buffer->view().Slice(at, n)));
  }
  return *std::move(buffer);
}

WeightMatrix DecodeStep::Take(std::byte*& at, int64_t rows,
                              int64_t cols) const {
  const WeightMatrix matrix = {shape_.dtype, rows, cols, at};
  at += rows * *RowBytes(shape_.dtype, cols);
  return matrix;
}

DecodeStep::DecodeStep(Backend& backend, const StepShape& shape, int64_t n_rows,
                       int64_t n_ctx)
    : backend_(&backend), shape_(shape), n_rows_(n_rows), n_ctx_(n_ctx) {
  MakeWeights();
  MakeCache();
  MakeSequences();
  MakeActivations();
}

void DecodeStep::MakeWeights() {
  const int64_t layer_bytes =
      (q_dim() + 2 * kv_dim() + 2 * shape_.ffn_dim) *
          *RowBytes(shape_.dtype, shape_.model_dim) +
      shape_.model_dim * (*RowBytes(shape_.dtype, q_dim()) +
                          *RowBytes(shape_.dtype, shape_.ffn_dim));
  for (int64_t i = 0; i < kLayers; ++i) {
    Layer layer;
    layer.memory = Memory(layer_bytes);
    std::byte* at = layer.memory.data();
    layer.q = Take(at, q_dim(), shape_.model_dim);
    layer.k = Take(at, kv_dim(), shape_.model_dim);
    layer.v = Take(at, kv_dim(), shape_.model_dim);
    layer.attention_out = Take(at, shape_.model_dim, q_dim());
    layer.gate = Take(at, shape_.ffn_dim, shape_.model_dim);
    layer.up = Take(at, shape_.ffn_dim, shape_.model_dim);
    layer.down = Take(at, shape_.model_dim, shape_.ffn_dim);
    layers_.push_back(std::move(layer));
  }
  const int64_t table_bytes =
      shape_.vocab_size * *RowBytes(shape_.dtype, shape_.model_dim);
  table_memory_ = Memory(table_bytes);
  std::byte* table = table_memory_.data();
  table_ = Take(table, shape_.vocab_size, shape_.model_dim);
  bytes_read_ += shape_.n_layers * layer_bytes + table_bytes;
}

void DecodeStep::MakeCache() {
  // All layers of a page lie together, as in a worker.
  const int64_t row_bytes = KvBytes(DType::kF16, kv_dim());
  kv_.page_tokens = kPageTokens;
  kv_.page_bytes = shape_.n_layers * 2 * kPageTokens * row_bytes;
  pool_ = Memory(n_rows_ * PagesOf(n_ctx_) * kv_.page_bytes);
  kv_.pool = pool_.data();
  bytes_read_ += n_rows_ * n_ctx_ * shape_.n_layers * 2 * row_bytes;
}

void DecodeStep::MakeSequences() {
  const int64_t n_pages = PagesOf(n_ctx_);
  for (int64_t r = 0; r < n_rows_; ++r) {
    std::vector<PageEntry>& pages = pages_.emplace_back();
    for (int64_t p = 0; p < n_pages; ++p) {
      const int64_t live = std::min(kPageTokens, n_ctx_ - p * kPageTokens);
      pages.push_back({p * kPageTokens, static_cast<int32_t>(r * n_pages + p),
                       0, static_cast<int32_t>(live), false});
    }
    tokens_.push_back(static_cast<int32_t>(r));
    positions_.push_back(n_ctx_ - 1);
  }
  for (int64_t r = 0; r < n_rows_; ++r) {
    segments_.push_back(
        {r, 1, n_ctx_ - 1, pages_[static_cast<size_t>(r)], {}, 0});
  }
  offsets_.resize(static_cast<size_t>(2 * n_rows_));
}

void DecodeStep::MakeActivations() {
  const auto floats = [&](int64_t n) {
    floats_.push_back(Memory(n_rows_ * n * 4));
    return reinterpret_cast<float*>(floats_.back().data());
  };
  gate_ = floats(shape_.ffn_dim);
  up_ = floats(shape_.ffn_dim);
  logits_ = floats(shape_.vocab_size);
  packed_ = Memory(n_rows_ * PackedRowBytes(std::max(shape_.ffn_dim, q_dim())));
  ops_ = {.n_heads = shape_.n_heads,
          .n_kv_heads = shape_.n_kv_heads,
          .head_dim = shape_.head_dim,
          .model_dim = shape_.model_dim,
          .scale = 1.0f / 16,
          .eps = 1e-6f,
          .norm = floats(shape_.model_dim),
          .x = floats(shape_.model_dim),
          .normed = floats(shape_.model_dim),
          .packed = packed_.data(),
          .q = floats(q_dim()),
          .k = floats(kv_dim()),
          .v = floats(kv_dim()),
          .angles = floats(shape_.head_dim)};
}

absl::Status DecodeStep::Run(bool is_held) {
  if (is_held) RETURN_IF_ERROR(backend_->BeginStep(n_rows_));
  absl::Status status = Queue();
  if (status.ok()) status = backend_->Synchronize();
  status.Update(backend_->EndStep());
  return status;
}

absl::Status DecodeStep::Queue() {
  RETURN_IF_ERROR(
      backend_->RopeAngles({positions_.data(), n_rows_, shape_.head_dim, 1e4,
                            1.0, nullptr, 1.0f, ops_.angles}));
  RETURN_IF_ERROR(
      backend_->GetRows({table_, tokens_.data(), n_rows_, 1.0f, ops_.x}));
  for (int64_t i = 0; i < shape_.n_layers; ++i) {
    const Layer& layer = layers_[static_cast<size_t>(i % kLayers)];
    RETURN_IF_ERROR(Attend(layer, i));
    RETURN_IF_ERROR(FeedForward(layer));
  }
  RETURN_IF_ERROR(ops_.Norm(*backend_, n_rows_));
  return backend_->MatMul(Product(table_, logits_, /*adds=*/false));
}

absl::Status DecodeStep::Attend(const Layer& layer, int64_t index) {
  const int64_t row_bytes = KvBytes(DType::kF16, kv_dim());
  RETURN_IF_ERROR(ops_.Norm(*backend_, n_rows_));
  const MatMulArgs products[] = {Product(layer.q, ops_.q, /*adds=*/false),
                                 Product(layer.k, ops_.k, /*adds=*/false),
                                 Product(layer.v, ops_.v, /*adds=*/false)};
  RETURN_IF_ERROR(backend_->MatMuls(products));
  PagedKv kv = kv_;
  kv.k_offset = index * 2 * kPageTokens * row_bytes;
  kv.v_offset = kv.k_offset + kPageTokens * row_bytes;
  for (size_t r = 0; r < pages_.size(); ++r) {
    const int64_t cell = pages_[r].back().page * kv.page_bytes +
                         (n_ctx_ - 1) % kPageTokens * row_bytes;
    offsets_[r] = cell + kv.k_offset;
    offsets_[pages_.size() + r] = cell + kv.v_offset;
  }
  RETURN_IF_ERROR(ops_.PrepareHeads(
      *backend_, n_rows_, {.base = kv.pool, .offsets = offsets_.data()}));
  AttentionArgs args = ops_.Attention(gate_);  // ffn_dim is not less
  args.segments = segments_;
  args.paged = kv;
  args.packed = packed_.data();
  RETURN_IF_ERROR(backend_->Attention(args));
  return backend_->MatMul(Product(layer.attention_out, ops_.x, /*adds=*/true));
}

absl::Status DecodeStep::FeedForward(const Layer& layer) {
  RETURN_IF_ERROR(ops_.Norm(*backend_, n_rows_));
  ASSIGN_OR_RETURN(
      const std::byte* const packed,
      backend_->GatedMatMul({.gate = Product(layer.gate, gate_, false),
                             .up = Product(layer.up, up_, false),
                             .activation = Activation::kGeluTanh,
                             .packed = packed_.data(),
                             .keeps_floats = false}));
  MatMulArgs down = Product(layer.down, ops_.x, /*adds=*/true);
  down.packed = packed;
  return backend_->MatMul(down);
}

}  // namespace plimsoll::kernels
