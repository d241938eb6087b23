#include "worker/graph/model.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/quant/dequantize.h"
#include "worker/device/read_ahead.h"
#include "worker/graph/model_gemma.h"
#include "worker/graph/model_llama.h"

namespace plimsoll::worker {
namespace {

// Bytes of file read at once; a chunk is whole rows, at least one panel's.
constexpr int64_t kChunkBytes = 1 << 20;

// A norm or bias, as float32 whatever the file has.
absl::Status LoadVector(const planner::WeightTensor& tensor,
                        std::span<const std::byte> bytes,
                        kernels::BufferView to, kernels::Backend& backend) {
  if (tensor.dtype == DType::kF32) return backend.Upload(bytes, to);
  std::vector<float> values(static_cast<size_t>(tensor.cols));
  RETURN_IF_ERROR(kernels::DequantizeRow(tensor.dtype, bytes.data(),
                                         tensor.cols, values.data()));
  return backend.Upload(std::as_bytes(std::span(values)), to);
}

int64_t RowMultiple(const kernels::DeviceInfo& device, DType dtype) {
  for (const kernels::StorageFact& fact : device.storage) {
    if (fact.dtype == dtype) return fact.row_multiple;
  }
  return 1;
}

// Rows of a tensor that are read at once: a vector's one.
int64_t ChunkRows(const planner::WeightTensor& tensor,
                  const kernels::DeviceInfo& device) {
  if (tensor.is_vector) return tensor.rows;
  const int64_t multiple = RowMultiple(device, tensor.dtype);
  const int64_t panel_bytes = tensor.file_bytes / tensor.rows * multiple;
  return std::max<int64_t>(1, kChunkBytes / panel_bytes) * multiple;
}

// Every tensor's bytes, chunk by chunk.
std::vector<ReadAhead::Piece> Pieces(const planner::ModelShape& shape,
                                     const kernels::DeviceInfo& device) {
  std::vector<ReadAhead::Piece> pieces;
  for (const planner::WeightTensor& tensor : shape.weights) {
    const int64_t row_bytes = tensor.file_bytes / tensor.rows;
    const int64_t chunk_rows = ChunkRows(tensor, device);
    for (int64_t row = 0; row < tensor.rows; row += chunk_rows) {
      pieces.push_back({tensor.file_offset + row * row_bytes,
                        std::min(chunk_rows, tensor.rows - row) * row_bytes});
    }
  }
  return pieces;
}

}  // namespace

absl::Status LoadWeights(ModelFile& file, const ModelParts& parts,
                         const LoadFence& fence) {
  const kernels::BufferView region =
      parts.arena->Region(*parts.plan, "weights");
  const kernels::DeviceInfo& device = parts.backend->Device();
  int64_t total = 0;
  for (const auto& tensor : parts.shape->weights) total += tensor.file_bytes;
  int64_t done = 0;
  ReadAhead reader(file, Pieces(*parts.shape, device),
                   /*has_thread=*/!device.is_host_memory);
  for (size_t i = 0; i < parts.shape->weights.size(); ++i) {
    const planner::WeightTensor& tensor = parts.shape->weights[i];
    const planner::WeightPlacement& place = parts.plan->weights[i];
    const kernels::BufferView to = region.Slice(place.offset, place.bytes);
    const int64_t chunk_rows = ChunkRows(tensor, device);
    for (int64_t row = 0; row < tensor.rows; row += chunk_rows) {
      ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, reader.Next());
      done += static_cast<int64_t>(bytes.size());
      if (tensor.is_vector) {
        RETURN_IF_ERROR(LoadVector(tensor, bytes, to, *parts.backend));
        continue;
      }
      RETURN_IF_ERROR(parts.backend->UploadRows(tensor.dtype, tensor.rows,
                                                tensor.cols, row, bytes, to));
      RETURN_IF_ERROR(fence({"weights", done, total}));
    }
  }
  return file.CheckUnchanged();
}

absl::Status CheckArchitecture(const planner::ModelShape& shape) {
  const std::string& architecture = shape.architecture;
  const auto refuse = [&](absl::string_view what) {
    return absl::UnimplementedError(
        absl::StrCat("architecture \"", architecture, "\"", what,
                     " can be planned but not run by this build"));
  };
  if (architecture != "llama" && architecture != "gemma3") return refuse("");
  if (shape.n_experts > 0) return refuse(" with experts");
  for (const planner::WeightTensor& tensor : shape.weights) {
    if (absl::EndsWith(tensor.name, ".bias") ||
        absl::EndsWith(tensor.name, "attn_qkv.weight")) {
      return refuse(absl::StrCat(" with tensor \"", tensor.name, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRunnable(const planner::ModelShape& shape,
                           const planner::MemoryPlan& plan) {
  RETURN_IF_ERROR(CheckArchitecture(shape));
  if (!plan.not_runnable.empty()) {
    return absl::UnimplementedError(plan.not_runnable.front());
  }
  const planner::LoadOptions& options = plan.options;
  if (options.policy != planner::ReservePolicy::kExact ||
      options.ring != planner::RingRule::kExact || !options.flash_attention ||
      options.allocation || options.weight_bytes || options.weight_type ||
      options.host_weights.experts ||
      options.host_weights.per_layer_embeddings || options.mmap_weights ||
      options.projector) {
    return absl::InvalidArgumentError(
        "policy, ring, flash_attention, allocation, weight_bytes, weight_type, "
        "host_weights, mmap_weights and a projector plan for other engines; a "
        "load takes none of them");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Model>> BuildModel(
    const planner::GgufHeader& header, const ModelParts& parts) {
  const std::string& architecture = parts.shape->architecture;
  if (architecture == "llama") return BuildLlama(header, parts);
  return BuildGemma3(header, parts);
}

}  // namespace plimsoll::worker
