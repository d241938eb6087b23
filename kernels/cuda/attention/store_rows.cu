// Stores rows rounded to the cache's type (kv_row.h), and copies rows as they
// are. One block of threads takes a row.
#include "base/status_macros.h"
#include "kernels/cuda/attention/kv_store.cuh"
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 128;

template <DType kType>
__global__ void StoreEach(const float* x, int64_t dim, std::byte* base,
                          const int64_t* offsets) {
  WaitForKernelsBefore();
  const int64_t row = blockIdx.x;
  x += row * dim;
  std::byte* out = base + offsets[row];
  for (int64_t c = ThreadIndex(); c < dim; c += kThreads) {
    StoreElement<kType>(x[c], c, out);
  }
}

template <class T>
__device__ void CopyWords(const std::byte* from, std::byte* to, int64_t bytes) {
  const auto n = bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t i = ThreadIndex(); i < n; i += kThreads) {
    reinterpret_cast<T*>(to)[i] = reinterpret_cast<const T*>(from)[i];
  }
}

__global__ void CopyEach(const std::byte* src, const int64_t* src_offsets,
                         std::byte* dst, const int64_t* dst_offsets,
                         int64_t row_bytes) {
  WaitForKernelsBefore();
  const int64_t row = blockIdx.x;
  const std::byte* from = src + src_offsets[row];
  std::byte* to = dst + dst_offsets[row];
  const uintptr_t bits = reinterpret_cast<uintptr_t>(from) |
                         reinterpret_cast<uintptr_t>(to) |
                         static_cast<uintptr_t>(row_bytes);
  if (bits % sizeof(uint4) == 0) {
    CopyWords<uint4>(from, to, row_bytes);
  } else if (bits % sizeof(uint16_t) == 0) {
    CopyWords<uint16_t>(from, to, row_bytes);
  } else {
    CopyWords<uint8_t>(from, to, row_bytes);
  }
}

absl::StatusOr<const int64_t*> PutOffsets(const Context& context,
                                          const int64_t* offsets, int64_t n) {
  return context.queue->PutSpan(
      std::span<const int64_t>(offsets, static_cast<size_t>(n)));
}

}  // namespace

absl::Status StoreRows(const Context& context, const StoreRowsArgs& args) {
  if (args.n_rows == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t* offsets,
                   PutOffsets(context, args.offsets, args.n_rows));
  auto* kernel = StoreEach<DType::kF32>;
  if (args.dtype == DType::kF16) kernel = StoreEach<DType::kF16>;
  if (args.dtype == DType::kBF16) kernel = StoreEach<DType::kBF16>;
  if (args.dtype == DType::kQ8_0) kernel = StoreEach<DType::kQ8_0>;
  if (args.dtype == DType::kQ5_1) kernel = StoreEach<DType::kQ5_1>;
  if (args.dtype == DType::kQ4_0) kernel = StoreEach<DType::kQ4_0>;
  Launch(kernel, {args.n_rows}, kThreads, 0, context.queue, args.x, args.dim,
         args.base, offsets);
  return absl::OkStatus();
}

absl::Status CopyRows(const Context& context, const CopyRowsArgs& args) {
  if (args.n_rows == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t* from,
                   PutOffsets(context, args.src_offsets, args.n_rows));
  ASSIGN_OR_RETURN(const int64_t* to,
                   PutOffsets(context, args.dst_offsets, args.n_rows));
  Launch(CopyEach, {args.n_rows}, kThreads, 0, context.queue, args.src, from,
         args.dst, to, args.row_bytes);
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
