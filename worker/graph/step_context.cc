#include "worker/graph/step_context.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

std::optional<size_t> FindTensor(const GraphInputs& inputs,
                                 absl::string_view name) {
  const auto& weights = inputs.shape->weights;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].name == name) return i;
  }
  return std::nullopt;
}

kernels::BufferView FindWeight(const GraphInputs& inputs,
                               absl::string_view name) {
  const std::optional<size_t> i = FindTensor(inputs, name);
  if (!i) return {};
  const planner::WeightPlacement& place = inputs.plan->weights[*i];
  return inputs.arena->Region(*inputs.plan, "weights")
      .Slice(place.offset, place.bytes);
}

const float* FindVector(const GraphInputs& inputs, absl::string_view name) {
  return reinterpret_cast<const float*>(FindWeight(inputs, name).data);
}

StepContext::StepContext(const GraphInputs& inputs,
                         const GraphParameters& parameters)
    : inputs_(inputs),
      parameters_(parameters),
      workspace_(inputs.arena->Region(*inputs.plan, "workspace")),
      weights_(inputs.arena->Region(*inputs.plan, "weights")) {
  if (inputs.host != nullptr) {
    host_ = std::make_unique<StepContext>(*inputs.host, parameters);
  }
  const auto rows = static_cast<size_t>(inputs.plan->n_rows);
  from_offsets_.reserve(rows);
  to_offsets_.reserve(rows);
}

void StepContext::Begin(int64_t n_rows) {
  n_rows_ = n_rows;
  residual_ = Buffer(StepBuffer::kResidual);
  attended_ = Buffer(StepBuffer::kAttention);
  added_weight_ = nullptr;  // a step that failed may have left one
  added_scale_ = 1;
}

size_t StepContext::IndexOf(absl::string_view name) const {
  const std::optional<size_t> i = FindTensor(inputs_, name);
  PLIMSOLL_CHECK(i.has_value(),
                 "ShapeFromGguf checked that every weight exists");
  return *i;
}

// A vector of another length is no scale, but Gemma 4's norm of a router's
// input.
const float* StepContext::FindScale(const planner::WeightTensor& weight) const {
  const std::string name =
      absl::StrCat(absl::StripSuffix(weight.name, ".weight"), ".scale");
  const kernels::BufferView found = FindWeight(inputs_, name);
  const auto bytes = static_cast<int64_t>(sizeof(float)) * weight.n_matrices;
  return found.bytes == bytes ? reinterpret_cast<const float*>(found.data)
                              : nullptr;
}

kernels::WeightMatrix StepContext::Matrix(absl::string_view name) const {
  const size_t i = IndexOf(name);
  const planner::WeightTensor& weight = inputs_.shape->weights[i];
  kernels::WeightMatrix w = {.dtype = weight.dtype,
                             .rows = weight.rows,
                             .cols = weight.cols,
                             .scale = FindScale(weight)};
  if (IsInArena(i)) {
    w.data = weights_.data + inputs_.plan->weights[i].offset;
    return w;
  }
  PLIMSOLL_CHECK(inputs_.mapping != nullptr, "CheckRunnable allows no other");
  const int64_t bytes = (weight.n_matrices - 1) * weight.file_stride +
                        weight.file_bytes / weight.n_matrices;
  w.data = inputs_.mapping->Bytes(weight.file_offset, bytes).data();
  w.order = kernels::WeightOrder::kFile;
  return w;
}

kernels::ExpertMatrices StepContext::Experts(absl::string_view name) const {
  const size_t i = IndexOf(name);
  const planner::WeightTensor& weight = inputs_.shape->weights[i];
  return {.first = Matrix(name),
          .matrix_bytes =
              IsInArena(i) ? inputs_.plan->weights[i].bytes / weight.n_matrices
                           : weight.file_stride};
}

StepContext& StepContext::HomeOf(absl::string_view weight) {
  const bool is_on_host = host_ != nullptr && host_->IsInArena(IndexOf(weight));
  return is_on_host ? *host_ : *this;
}

const float* StepContext::Vector(absl::string_view name) const {
  return reinterpret_cast<const float*>(
      weights_.data + inputs_.plan->weights[IndexOf(name)].offset);
}

std::byte* StepContext::PackedInputs(int64_t dim, StepBuffer buffer) const {
  const bool is_packable = dim % backend().Device().activation_block == 0;
  if (inputs_.precision == Precision::kExact || !is_packable) return nullptr;
  return Bytes(buffer);
}

absl::StatusOr<ProductInput> StepContext::SublayerInput(const float* weight,
                                                        float scale) {
  return weight != nullptr ? NormedResidual(weight, scale) : PlainResidual();
}

absl::StatusOr<ProductInput> StepContext::PlainResidual() {
  if (added_weight_ == nullptr) return AsInput(Residual(), model_dim());
  kernels::RmsNormArgs norm = AddedNorm();
  norm.packed = PackedInputs(model_dim());
  RETURN_IF_ERROR(backend().RmsNorm(norm));
  return ProductInput{Residual(), norm.packed};
}

absl::StatusOr<ProductInput> StepContext::NormedResidual(const float* weight,
                                                         float scale) {
  if (added_weight_ == nullptr) return NormedInput(Residual(), weight, scale);
  const kernels::RmsNormArgs norm = NormOf(Residual(), weight, scale);
  RETURN_IF_ERROR(backend().AddNorm({AddedNorm(), norm}));
  return ProductInput{Normed(), norm.packed};
}

kernels::RmsNormArgs StepContext::NormOf(const float* x, const float* weight,
                                         float scale) const {
  return {.x = x,
          .weight = weight,
          .out = Normed(),
          .n_rows = n_rows_,
          .dim = model_dim(),
          .eps = parameters_.stream_eps,
          .accumulate = false,
          .packed = PackedInputs(model_dim()),
          .scale = scale,
          .subtracts_mean = parameters_.norms_subtract_means};
}

absl::StatusOr<ProductInput> StepContext::AsInput(const float* x, int64_t dim) {
  std::byte* const packed = PackedInputs(dim);
  if (packed != nullptr && n_rows_ > 0) {
    RETURN_IF_ERROR(backend().PackActivations(
        {.x = x, .n_rows = n_rows_, .dim = dim, .out = packed}));
  }
  return ProductInput{x, packed};
}

absl::StatusOr<ProductInput> StepContext::NormedInput(const float* x,
                                                      const float* weight,
                                                      float scale) {
  const kernels::RmsNormArgs norm = NormOf(x, weight, scale);
  RETURN_IF_ERROR(backend().RmsNorm(norm));
  return ProductInput{Normed(), norm.packed};
}

absl::StatusOr<ProductInput> StepContext::WeightedInput(const float* x,
                                                        const float* weight) {
  // A norm that gives a row its own size back only multiplies by the weight.
  kernels::RmsNormArgs norm = NormOf(x, weight, /*scale=*/1);
  norm.eps = kLeastSquare;
  norm.like = x;
  RETURN_IF_ERROR(backend().RmsNorm(norm));
  return ProductInput{Normed(), norm.packed};
}

kernels::RmsNormArgs StepContext::AddedNorm() {
  return {.x = added_,
          .weight = std::exchange(added_weight_, nullptr),
          .out = Residual(),
          .n_rows = n_rows_,
          .dim = model_dim(),
          .eps = parameters_.rms_eps,
          .accumulate = true,
          .scale = std::exchange(added_scale_, 1.0f)};
}

absl::Status StepContext::AddToResidual(const ProductInput& input,
                                        const ResidualEnd& end) {
  const bool is_normed = end.post_norm != nullptr;
  float* const out = is_normed ? Normed() : Residual();
  RETURN_IF_ERROR(
      Project(input, {{.w = end.w, .out = out, .accumulate = !is_normed}}));
  RETURN_IF_ERROR(AddBiases({{end.bias, out, model_dim()}}));
  if (is_normed) AddNormed(out, end.post_norm);
  return absl::OkStatus();
}

void StepContext::AddNormed(float* sum, const float* weight) {
  added_ = sum;
  added_weight_ = weight;
}

void StepContext::ScaleResidual(float scale) {
  PLIMSOLL_CHECK(added_weight_ != nullptr, "the sum is scaled as it is made");
  added_scale_ *= scale;
}

absl::Status StepContext::FinishResidual() {
  if (added_weight_ == nullptr) return absl::OkStatus();
  return backend().RmsNorm(AddedNorm());
}

kernels::MatMulArgs StepContext::ProductOf(const ProductInput& input,
                                           const Projection& projection) const {
  return {.w = projection.w,
          .x = input.x,
          .packed = input.packed,
          .out = projection.out,
          .n_rows = n_rows_,
          .accumulate = projection.accumulate};
}

absl::Status StepContext::MixStreams(kernels::MixRowsArgs args) {
  args.n_rows = n_rows_;
  args.dim = model_dim();
  return backend().MixRows(args);
}

absl::Status StepContext::Project(
    const ProductInput& input, std::initializer_list<Projection> projections) {
  constexpr size_t kMaxProjections = 3;
  PLIMSOLL_CHECK(projections.size() <= kMaxProjections,
                 "no input has more products");
  std::array<kernels::MatMulArgs, kMaxProjections> products;
  size_t n = 0;
  for (const Projection& projection : projections) {
    products.at(n++) = ProductOf(input, projection);
  }
  return backend().MatMuls(std::span(products).first(n));
}

absl::Status StepContext::AddBiases(std::initializer_list<Bias> biases) {
  PLIMSOLL_CHECK(biases.size() <= kernels::kMaxBiases,
                 "no operation adds more biases");
  std::array<kernels::AddBiasArgs, kernels::kMaxBiases> args;
  size_t n = 0;
  for (const Bias& bias : biases) {
    if (bias.bias == nullptr) continue;
    args.at(n++) = {bias.bias, bias.x, n_rows_, bias.dim};
  }
  if (n == 0) return absl::OkStatus();
  return backend().AddBiases(std::span(args).first(n));
}

absl::Status StepContext::GatherRows(const Rows& from,
                                     std::span<const int32_t> rows, float* to) {
  const int64_t row_bytes = from.dim * static_cast<int64_t>(sizeof(float));
  const int64_t stride_bytes =
      from.stride == 0 ? row_bytes
                       : from.stride * static_cast<int64_t>(sizeof(float));
  from_offsets_.clear();
  to_offsets_.clear();
  for (const int32_t row : rows) {
    to_offsets_.push_back(static_cast<int64_t>(from_offsets_.size()) *
                          row_bytes);
    from_offsets_.push_back(row * stride_bytes);
  }
  return backend().CopyRows(
      {.src = reinterpret_cast<const std::byte*>(from.first),
       .src_offsets = from_offsets_.data(),
       .dst = reinterpret_cast<std::byte*>(to),
       .dst_offsets = to_offsets_.data(),
       .n_rows = static_cast<int64_t>(rows.size()),
       .row_bytes = row_bytes});
}

absl::Status StepContext::KeepSampled(const StepBatch& batch,
                                      int64_t attended_dim) {
  const int64_t n_before = n_rows_;
  n_rows_ = static_cast<int64_t>(batch.sampled_rows.size());
  PLIMSOLL_CHECK(n_rows_ <= inputs_.plan->n_sampled,
                 "the scheduler keeps to the plan's sampled rows");
  if (n_rows_ == 0) return absl::OkStatus();
  // Queries have been read.
  float* const query = Buffer(StepBuffer::kQuery);
  RETURN_IF_ERROR(
      GatherRows({attended_, attended_dim}, batch.sampled_rows, query));
  attended_ = query;
  float* const sampled = Buffer(StepBuffer::kSampled);
  const int64_t n_arrays = n_streams() > 1 ? n_streams() + 1 : 1;
  for (int64_t i = 0; i < n_arrays; ++i) {
    RETURN_IF_ERROR(
        GatherRows({residual_ + i * n_before * model_dim(), model_dim()},
                   batch.sampled_rows, sampled + i * n_rows_ * model_dim()));
  }
  residual_ = sampled;
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
