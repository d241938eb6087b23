// Attention of prompts on the tensor cores.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_CUH_

#include <span>

#include "kernels/cuda/attention/attention_warp.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// The queries of a task, for a block of threads, or with wide heads for a warp.
// They are heads of one or more rows that read one KV head.
int64_t PromptQueriesOf(const Context& context, int64_t head_dim);

// Attends for tiles of AppendPromptTiles, which `host` and `device` both hold.
// `shape` has tile_heads of at most PromptQueriesOf, and HasPromptType is true
// for its types of keys and values. Uses the scratch memory.
void AttendPrompts(const Context& context, const AttentionShape& shape,
                   std::span<const AttentionTile> host,
                   const AttentionTile* device);

// Like AttendPrompts, for heads of more than kNarrowHeadDim elements and tasks
// of kPromptQueries.
void AttendWidePrompts(const Context& context, const AttentionShape& shape,
                       std::span<const AttentionTile> host,
                       const AttentionTile* device);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_CUH_
