// The shared part of kernels that attend in spans: the places of span results
// until another kernel merges them, and the number of results that fit.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_SPANS_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_SPANS_CUH_

#include <algorithm>
#include <bit>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention_warp.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Results of spans. Each query of a batch has `stride` floats for each span:
// the maximum, the sum of weights, and the weighted sums of values.
struct Partials {
  float* data;
  int64_t n_spans;  // room for each query
  int64_t stride;   // floats of a span

  __device__ float* At(int64_t query, int64_t span) const {
    return data + (query * n_spans + span) * stride;
  }
};

// The results of one span.
struct SpanPartials {
  const Partials& partials;
  int64_t first_query;  // the batch's, in the step
  int64_t span;

  // `query` is an index in the step.
  __device__ float* At(int64_t query) const {
    return partials.At(query - first_query, span);
  }
};

__device__ inline float Quotient(float sum, float total) {
  return total == 0.0f ? 0.0f : sum / total;  // 0: the row sees no key
}

// Tiles in the memory of the host and of the device.
struct Tiles {
  std::span<const AttentionTile> host;
  const AttentionTile* device;
};

// Rounds `n` up by a quarter at most, so that a growing context seldom changes
// the grid; blocks without a span end at once.
inline int64_t RoundedSpans(int64_t n) {
  const auto step = static_cast<int64_t>(
      std::max(std::bit_floor(static_cast<uint64_t>(n)) / 4, uint64_t{1}));
  return (n + step - 1) / step * step;
}

// Returns the number of first tiles, at most `max_tiles`, whose span results
// fit in the scratch memory. Each tile's rows are directly before the rows of
// the next tile.
inline size_t TilesThatFit(const AttentionShape& shape,
                           std::span<const AttentionTile> tiles,
                           int64_t max_tiles, Partials& partials) {
  size_t n = 0;
  int64_t n_spans = 0;
  const int64_t first_row = tiles[0].first_row;
  const auto most = static_cast<size_t>(max_tiles);
  for (const AttentionTile& tile : tiles.first(std::min(most, tiles.size()))) {
    const int64_t spans = std::max(n_spans, RoundedSpans(tile.Spans()));
    const int64_t n_rows = tile.first_row + tile.n_rows - first_row;
    // Rows of the step may come in any order; rows before the first do not fit.
    if (n_rows < tile.n_rows ||
        spans > kScratchBytes / 4 / (partials.stride * shape.n_heads * n_rows))
      break;
    n_spans = spans;
    ++n;
  }
  partials.n_spans = n_spans;
  return n;
}

// The sizes of batches of tiles.
struct SpanBatches {
  int64_t stride;     // floats of a span
  int64_t max_tiles;  // the most tiles of a batch
};

// Calls launch(tiles, partials) for as many tiles at a time as have room for
// their spans in the scratch memory.
// Errors: kResourceExhausted if one tile needs more than the scratch memory.
template <class LaunchTiles>
absl::Status AttendInBatches(const Context& context,
                             const AttentionShape& shape, Tiles tiles,
                             const SpanBatches& batches,
                             const LaunchTiles& launch) {
  Partials partials = {};
  partials.data = reinterpret_cast<float*>(context.scratch);
  partials.stride = batches.stride;
  while (!tiles.host.empty()) {
    const size_t n =
        TilesThatFit(shape, tiles.host, batches.max_tiles, partials);
    if (n == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "attention of ", shape.n_heads,
          " heads takes more than the kernels' ", kScratchBytes, " bytes"));
    }
    // The number of batches changes with the contexts, so a graph cannot hold
    // them.
    if (n < tiles.host.size()) RETURN_IF_ERROR(context.queue->StartEach());
    launch(Tiles{tiles.host.first(n), tiles.device}, partials);
    tiles = {tiles.host.subspan(n), tiles.device + n};
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_SPANS_CUH_
