// Cuts a step in pieces, which pass a model's parts one behind the other.
#ifndef PLIMSOLL_WORKER_GRAPH_STEP_PIECES_H_
#define PLIMSOLL_WORKER_GRAPH_STEP_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/graph/model.h"

namespace plimsoll::worker {

// Least rows of a piece. From as many on products on CUDA devices are in F16
// (CudaOptions::half_product_rows), and the CPU's decode their weights for
// nearly as many rows at once as they ever do: smaller pieces would lose more
// by reading weights again than other devices gain by beginning earlier.
inline constexpr int64_t kPieceRows = 128;

// Cuts the batch in as many pieces as have `least_rows`, of nearly equal size,
// in the order of its rows, and returns how many; they are the first ones of
// `pieces`, whose room is used again. A piece is a step by itself: what it has
// of a prompt is a chunk behind those of the pieces before, as if the scheduler
// had cut there, so the bits are the same.
//
// 1, and nothing in `pieces`, for a batch that stays whole: a small one; one
// that only decodes, or has guessed tokens, which see each other only within a
// step; one that keeps all of its rows; and any if `least_rows` is 0.
size_t CutStep(const StepBatch& batch, int64_t least_rows,
               std::vector<StepBatch>& pieces);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_STEP_PIECES_H_
