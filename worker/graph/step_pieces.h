// Cuts a step into pieces, which pass a model's parts one behind the other.
#ifndef PLIMSOLL_WORKER_GRAPH_STEP_PIECES_H_
#define PLIMSOLL_WORKER_GRAPH_STEP_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/graph/model.h"

namespace plimsoll::worker {

// A piece has at least this many rows. From this number on, products on CUDA
// devices are in F16 (CudaOptions::half_product_rows), and the CPU's products
// decode their weights for nearly the largest number of rows. Smaller pieces
// would lose more by reading weights again than other devices gain by beginning
// earlier.
inline constexpr int64_t kPieceRows = 128;

// Cuts the batch into as many pieces of at least `least_rows` rows as there can
// be, of nearly equal size and in the order of its rows, and returns their
// number. They are the first elements of `pieces`, whose memory is reused. A
// piece is a step by itself: its part of a prompt is a chunk behind those of
// the pieces before, as if the scheduler had cut there, so the bits are the
// same.
//
// Returns 1, with nothing in `pieces`, for a batch that stays whole: a small
// one; one that only decodes, or has guessed tokens, which see each other only
// within a step; one that keeps all of its rows; and every batch if
// `least_rows` is 0.
size_t CutStep(const StepBatch& batch, int64_t least_rows,
               std::vector<StepBatch>& pieces);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_STEP_PIECES_H_
