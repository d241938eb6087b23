#include "worker/graph/model.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "kernels/quant/dequantize.h"
#include "worker/device/read_ahead.h"

namespace plimsoll::worker {
namespace {

// Bytes of file read at once; a chunk is whole rows, at least one panel's.
constexpr int64_t kPackedAtOnceBytes = 1 << 20;

// A matrix or a vector goes to this memory of a device.
struct UploadTarget {
  kernels::Backend& backend;
  kernels::BufferView view;
};

// Uploads a norm or bias as float32, whatever the file has.
absl::Status LoadVector(const planner::WeightTensor& tensor,
                        std::span<const std::byte> bytes,
                        const UploadTarget& to) {
  if (tensor.dtype == DType::kF32) return to.backend.Upload(bytes, to.view);
  std::vector<float> values(static_cast<size_t>(tensor.cols));
  RETURN_IF_ERROR(kernels::DequantizeRow(tensor.dtype, bytes.data(),
                                         tensor.cols, values.data()));
  return to.backend.Upload(std::as_bytes(std::span(values)), to.view);
}

int64_t RowMultiple(const kernels::DeviceInfo& device, DType dtype) {
  for (const kernels::StorageFact& fact : device.storage) {
    if (fact.dtype == dtype) return fact.row_multiple;
  }
  return 1;
}

int64_t FileRowBytes(const planner::WeightTensor& tensor) {
  return tensor.file_bytes / (tensor.rows * tensor.n_matrices);
}

// Rows of a matrix that are read at once. A vector has one row.
int64_t ChunkRows(const planner::WeightTensor& tensor,
                  const kernels::DeviceInfo& device) {
  if (tensor.is_vector) return tensor.rows;
  const int64_t multiple = RowMultiple(device, tensor.dtype);
  const int64_t panel_bytes = FileRowBytes(tensor) * multiple;
  return std::max<int64_t>(1, kPackedAtOnceBytes / panel_bytes) * multiple;
}

bool IsInArena(const planner::MemoryPlan& plan, size_t i) {
  return plan.weights[i].offset >= 0;
}

// The pieces of all tensors that the arena has, chunk by chunk.
std::vector<ReadAhead::Piece> Pieces(const planner::ModelShape& shape,
                                     const planner::MemoryPlan& plan,
                                     const kernels::DeviceInfo& device) {
  std::vector<ReadAhead::Piece> pieces;
  for (size_t i = 0; i < shape.weights.size(); ++i) {
    if (!IsInArena(plan, i)) continue;
    const planner::WeightTensor& tensor = shape.weights[i];
    const int64_t row_bytes = FileRowBytes(tensor);
    const int64_t chunk_rows = ChunkRows(tensor, device);
    for (int64_t m = 0; m < tensor.n_matrices; ++m) {
      const int64_t offset = tensor.file_offset + m * tensor.file_stride;
      for (int64_t row = 0; row < tensor.rows; row += chunk_rows) {
        pieces.push_back({offset + row * row_bytes,
                          std::min(chunk_rows, tensor.rows - row) * row_bytes});
      }
    }
  }
  return pieces;
}

// Uploads the reader's next pieces, those of one matrix, to `to`. Calls
// after(bytes) after each.
template <class After>
absl::Status LoadMatrix(const planner::WeightTensor& tensor, ReadAhead& reader,
                        const UploadTarget& to, const After& after) {
  const int64_t chunk_rows = ChunkRows(tensor, to.backend.Device());
  for (int64_t row = 0; row < tensor.rows; row += chunk_rows) {
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, reader.Next());
    if (PLIMSOLL_FAULT("weights.pack")) {
      return absl::ResourceExhaustedError("no memory to pack weights in");
    }
    RETURN_IF_ERROR(to.backend.UploadRows({.dtype = tensor.dtype,
                                           .rows = tensor.rows,
                                           .cols = tensor.cols,
                                           .first_row = row,
                                           .bytes = bytes},
                                          to.view));
    RETURN_IF_ERROR(after(static_cast<int64_t>(bytes.size())));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t BytesToLoad(const planner::ModelShape& shape,
                    const planner::MemoryPlan& plan) {
  int64_t bytes = 0;
  for (size_t i = 0; i < shape.weights.size(); ++i) {
    if (IsInArena(plan, i)) bytes += shape.weights[i].file_bytes;
  }
  return bytes;
}

absl::Status LoadWeights(ModelFile& file, const GraphInputs& inputs,
                         const LoadFence& fence) {
  const kernels::BufferView region =
      inputs.arena->Region(*inputs.plan, "weights");
  const kernels::DeviceInfo& device = inputs.backend->Device();
  const int64_t total = BytesToLoad(*inputs.shape, *inputs.plan);
  int64_t done = 0;
  ReadAhead reader(file, Pieces(*inputs.shape, *inputs.plan, device),
                   /*has_thread=*/!device.is_host_memory);
  for (size_t i = 0; i < inputs.shape->weights.size(); ++i) {
    if (!IsInArena(*inputs.plan, i)) continue;
    const planner::WeightTensor& tensor = inputs.shape->weights[i];
    const planner::WeightPlacement& place = inputs.plan->weights[i];
    const int64_t matrix_bytes = place.bytes / tensor.n_matrices;
    for (int64_t m = 0; m < tensor.n_matrices; ++m) {
      const UploadTarget to = {
          *inputs.backend,
          region.Slice(place.offset + m * matrix_bytes, matrix_bytes)};
      if (tensor.is_vector) {
        ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, reader.Next());
        done += static_cast<int64_t>(bytes.size());
        RETURN_IF_ERROR(LoadVector(tensor, bytes, to));
        continue;
      }
      RETURN_IF_ERROR(LoadMatrix(tensor, reader, to, [&](int64_t bytes) {
        done += bytes;
        return fence({"weights", done, total});
      }));
    }
  }
  return file.CheckUnchanged();
}

}  // namespace plimsoll::worker
