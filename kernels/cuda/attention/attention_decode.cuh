// Attention of generated tokens on the tensor cores.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_CUH_

#include "absl/status/status.h"
#include "kernels/cuda/attention/attention_spans.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// True if there is a kernel for these types, dimensions and addresses.
bool CanAttendDecoding(const AttentionArgs& args);

// Attends for tiles of AppendDecodeTiles. `shape` has tile_heads of at most
// DecodeQueries. With `packed`, it also packs the results.
// Errors: kResourceExhausted if one tile needs more than the scratch memory.
absl::Status AttendDecoding(const Context& context, const AttentionShape& shape,
                            Tiles tiles, std::byte* packed);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_CUH_
