// Reference: rows rounded to the cache's type, and rows copied as they are.
#include <cstring>

#include "kernels/reference/float16.h"
#include "kernels/reference/ops.h"

namespace plimsoll::kernels::reference {

void StoreRows(const StoreRowsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float* x = args.x + r * args.dim;
    std::byte* out = args.base + args.offsets[r];
    for (int64_t c = 0; c < args.dim; ++c) {
      if (args.dtype == DType::kF32) {
        std::memcpy(out + c * 4, &x[c], 4);
      } else {
        const uint16_t half = F16FromF32(x[c]);
        std::memcpy(out + c * 2, &half, 2);
      }
    }
  }
}

void CopyRows(const CopyRowsArgs& args) {
  for (int64_t r = 0; r < args.n_rows; ++r) {
    std::memcpy(args.dst + args.dst_offsets[r], args.src + args.src_offsets[r],
                static_cast<size_t>(args.row_bytes));
  }
}

}  // namespace plimsoll::kernels::reference
