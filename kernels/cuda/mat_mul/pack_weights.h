// Uploads weight rows through pinned memory to the device, which converts them
// to the layout of weight_layout.h.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_PACK_WEIGHTS_H_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_PACK_WEIGHTS_H_

#include <span>

#include "absl/status/status.h"
#include "kernels/cuda/ops.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Stores rows [first_row, first_row + n) of `matrix`, whose file bytes are
// `file_rows`; first_row is a multiple of kTileRows, and so is n except at the
// end. Rows past the end of the last tile become zeros. The bytes are free
// again when this returns.
// Errors: kResourceExhausted if kTileRows rows are more than
// Staging::kPartBytes.
absl::Status PackRows(const Context& context, const WeightMatrix& matrix,
                      int64_t first_row, std::span<const std::byte> file_rows);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_PACK_WEIGHTS_H_
