#include "worker/graph/mtp_input.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::worker {

using planner::StepBuffer;

namespace {

constexpr absl::string_view kProduct = "nextn.eh_proj.weight";
constexpr absl::string_view kEmbeddingNorm = "nextn.enorm.weight";
constexpr absl::string_view kRowNorm = "nextn.hnorm.weight";
constexpr absl::string_view kEmbedding = "nextn.embed_tokens.weight";

}  // namespace

MtpInput::MtpInput(StepContext& context, const GraphParameters& parameters)
    : context_(context) {
  const std::string prefix =
      absl::StrCat("blk.", context.inputs().first_layer, ".");
  const std::string own = absl::StrCat(prefix, kEmbedding);
  embedding_ = context.Has(own)
                   ? context.Matrix(own)
                   : StepContext(*context.inputs().trunk, parameters)
                         .Matrix("token_embd.weight");
  product_ = context.Matrix(absl::StrCat(prefix, kProduct));
  embedding_norm_ = context.Vector(absl::StrCat(prefix, kEmbeddingNorm));
  row_norm_ = context.Vector(absl::StrCat(prefix, kRowNorm));
  const auto rows = static_cast<size_t>(context.inputs().plan->n_rows);
  from_offsets_.reserve(rows);
  to_offsets_.reserve(rows);
}

bool MtpInput::Reads(absl::string_view tensor) {
  constexpr absl::string_view kTensors[] = {kProduct, kEmbeddingNorm, kRowNorm,
                                            kEmbedding};
  return absl::c_linear_search(kTensors, tensor);
}

absl::Status MtpInput::Compute(const StepBatch& batch) {
  float* const rows = context_.Residual();
  RETURN_IF_ERROR(context_.backend().GetRows(
      {.table = embedding_,
       .tokens = batch.tokens.data(),
       .n_rows = context_.n_rows(),
       .scale = context_.parameters().embedding_scale,
       .out = rows}));
  RETURN_IF_ERROR(Join(rows, embedding_norm_, /*half=*/0));
  RETURN_IF_ERROR(
      context_.GatherRows({context_.inputs().mtp_rows, context_.model_dim()},
                          batch.model_rows, rows));
  RETURN_IF_ERROR(Join(rows, row_norm_, /*half=*/1));
  ASSIGN_OR_RETURN(const ProductInput joined,
                   context_.AsInput(context_.Buffer(StepBuffer::kGate),
                                    2 * context_.model_dim()));
  return context_.Project(joined, {{.w = product_, .out = rows}});
}

absl::Status MtpInput::Join(const float* x, const float* norm, int64_t half) {
  ASSIGN_OR_RETURN(const ProductInput normed,
                   context_.NormedInput(x, norm, /*scale=*/1));
  const int64_t row_bytes =
      context_.model_dim() * static_cast<int64_t>(sizeof(float));
  from_offsets_.clear();
  to_offsets_.clear();
  for (int64_t row = 0; row < context_.n_rows(); ++row) {
    from_offsets_.push_back(row * row_bytes);
    to_offsets_.push_back((2 * row + half) * row_bytes);
  }
  return context_.backend().CopyRows(
      {.src = reinterpret_cast<const std::byte*>(normed.x),
       .src_offsets = from_offsets_.data(),
       .dst = context_.Bytes(StepBuffer::kGate),
       .dst_offsets = to_offsets_.data(),
       .n_rows = context_.n_rows(),
       .row_bytes = row_bytes});
}

}  // namespace plimsoll::worker
