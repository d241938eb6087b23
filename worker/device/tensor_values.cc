#include "worker/device/tensor_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/quant/dequantize.h"

namespace plimsoll::worker {
namespace {

// Bytes of the file that are read at once.
constexpr int64_t kChunkBytes = int64_t{4} << 20;
// Values that a thread decodes at once: they stay in a near cache. Whole blocks
// of every element type.
constexpr int64_t kPieceValues = 8'192;

constexpr uint32_t kMagnitudeBits = 0x7FFFFFFF;
constexpr uint32_t kLargestWeightBits = std::bit_cast<uint32_t>(kLargestWeight);

// The statistics that one thread has gathered of a matrix.
struct Findings {
  int64_t n_not_finite = 0;
  int64_t first_not_finite = -1;
  int64_t n_too_large = 0;
  int64_t first_too_large = -1;
  uint32_t largest = 0;  // the bits of the magnitude
};

// One thread works with this.
struct ThreadWork {
  Findings found;
  std::vector<float> values;  // [kPieceValues]
};

int64_t Earlier(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return std::max(a, b);
  return std::min(a, b);
}

void Merge(const Findings& from, Findings& into) {
  into.n_not_finite += from.n_not_finite;
  into.first_not_finite = Earlier(into.first_not_finite, from.first_not_finite);
  into.n_too_large += from.n_too_large;
  into.first_too_large = Earlier(into.first_too_large, from.first_too_large);
  into.largest = std::max(into.largest, from.largest);
}

// Adds values of which the first one has the index `first`. Magnitudes compare
// as their bits do, and what is not finite has the largest bits.
void Look(std::span<const float> values, int64_t first, Findings& found) {
  uint32_t largest = 0;
  for (const float value : values) {
    largest =
        std::max(largest, std::bit_cast<uint32_t>(value) & kMagnitudeBits);
  }
  if (largest <= kLargestWeightBits) {
    found.largest = std::max(found.largest, largest);
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t index = first + static_cast<int64_t>(i);
    if (!std::isfinite(values[i])) {
      ++found.n_not_finite;
      found.first_not_finite = Earlier(found.first_not_finite, index);
      continue;
    }
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]) & kMagnitudeBits;
    found.largest = std::max(found.largest, bits);
    if (bits <= kLargestWeightBits) continue;
    ++found.n_too_large;
    found.first_too_large = Earlier(found.first_too_large, index);
  }
}

// Decodes whole blocks, of which the first value has the index `first`, and
// looks at them.
void LookAtBlocks(const DTypeInfo& type, std::span<const std::byte> blocks,
                  int64_t first, ThreadWork& work) {
  const auto n_blocks = static_cast<int64_t>(blocks.size()) / type.block_bytes;
  const int64_t step = kPieceValues / type.block_elems;
  for (int64_t begin = 0; begin < n_blocks; begin += step) {
    const int64_t n = std::min(step, n_blocks - begin) * type.block_elems;
    // The type was checked, and these are whole blocks: this cannot fail.
    if (!kernels::DequantizeRow(type.dtype,
                                blocks.data() + begin * type.block_bytes, n,
                                work.values.data())
             .ok()) {
      return;
    }
    Look(std::span(work.values).first(static_cast<size_t>(n)),
         first + begin * type.block_elems, work.found);
  }
}

// Reads the matrices of one tensor.
class TensorReader {
 public:
  TensorReader(ModelFile& file, const DTypeInfo& type,
               kernels::ThreadPool& pool, const TensorFence& fence)
      : file_(file),
        type_(type),
        pool_(pool),
        fence_(fence),
        work_(static_cast<size_t>(pool.n_threads()),
              {.found = {}, .values = std::vector<float>(kPieceValues)}) {}

  // Looks at `n_values` values from `offset` in the file, of which the first
  // one has the index `first`.
  absl::StatusOr<Findings> Read(int64_t offset, int64_t n_values,
                                int64_t first) {
    for (ThreadWork& work : work_) work.found = {};
    const int64_t n_blocks = n_values / type_.block_elems;
    const int64_t at_once = kChunkBytes / type_.block_bytes;
    for (int64_t begin = 0; begin < n_blocks; begin += at_once) {
      RETURN_IF_ERROR(fence_(bytes_done_));
      const int64_t n = std::min(at_once, n_blocks - begin);
      chunk_.resize(static_cast<size_t>(n * type_.block_bytes));
      RETURN_IF_ERROR(file_.Read(offset + begin * type_.block_bytes, chunk_));
      LookAtChunk(n, first + begin * type_.block_elems);
      bytes_done_ += n * type_.block_bytes;
    }
    Findings all;
    for (const ThreadWork& work : work_) Merge(work.found, all);
    return all;
  }

 private:
  void LookAtChunk(int64_t n_blocks, int64_t first) {
    pool_.ParallelFor(
        n_blocks, kPieceValues / type_.block_elems,
        [&](int64_t begin, int64_t end, int thread) {
          const auto blocks = std::span<const std::byte>(chunk_).subspan(
              static_cast<size_t>(begin * type_.block_bytes),
              static_cast<size_t>((end - begin) * type_.block_bytes));
          LookAtBlocks(type_, blocks, first + begin * type_.block_elems,
                       work_[static_cast<size_t>(thread)]);
        });
  }

  ModelFile& file_;
  const DTypeInfo& type_;
  kernels::ThreadPool& pool_;
  const TensorFence& fence_;
  int64_t bytes_done_ = 0;
  std::vector<std::byte> chunk_;
  std::vector<ThreadWork> work_;  // [n_threads]
};

}  // namespace

absl::StatusOr<TensorValues> ReadTensorValues(ModelFile& file,
                                              const planner::GgufTensor& tensor,
                                              kernels::ThreadPool& pool,
                                              const TensorFence& fence) {
  if (!kernels::IsWeightType(tensor.dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("values of type ", DTypeName(tensor.dtype),
                     " cannot be read by this build"));
  }
  const DTypeInfo& type = InfoOf(tensor.dtype);
  TensorValues result;
  result.n_matrices = tensor.ne[2] * tensor.ne[3];
  const int64_t n_each = tensor.ne[0] * tensor.ne[1];
  result.n_values = n_each * result.n_matrices;
  const int64_t bytes_each = n_each / type.block_elems * type.block_bytes;
  const int64_t offset = file.header().data_offset + tensor.offset;
  TensorReader reader(file, type, pool, fence);
  Findings all;
  for (int64_t i = 0; i < result.n_matrices; ++i) {
    ASSIGN_OR_RETURN(const Findings found,
                     reader.Read(offset + i * bytes_each, n_each, i * n_each));
    if (found.largest == 0 && found.n_not_finite == 0) {
      ++result.n_zero_matrices;
      result.first_zero_matrix = Earlier(result.first_zero_matrix, i);
    }
    Merge(found, all);
  }
  result.n_not_finite = all.n_not_finite;
  result.first_not_finite = all.first_not_finite;
  result.n_too_large = all.n_too_large;
  result.first_too_large = all.first_too_large;
  result.largest = std::bit_cast<float>(all.largest);
  return result;
}

}  // namespace plimsoll::worker
