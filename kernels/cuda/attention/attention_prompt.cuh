// Attention of prompts on the tensor cores.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_CUH_

#include <span>

#include "kernels/cuda/attention/attention_warp.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Attends for tiles of AppendPromptTiles, which `host` and `device` both hold.
// `shape` has part_heads of at most kPromptQueries, and HasPromptType is true
// for its types of keys and values.
void AttendPrompts(const Context& context, const AttentionShape& shape,
                   std::span<const AttentionTile> host,
                   const AttentionTile* device);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_CUH_
