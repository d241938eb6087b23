// Integer products of up to eight rows, whose weights go through shared memory
// (weight_stream.cuh).
//
// A block of threads takes rows of tiles of outputs, one after another. One
// thread starts the copies of weights, before the kernels before have ended.
// Eight warps multiply and meet only now and then, to add up what they have.
//
// The order of a sum does not depend on the number of rows. Columns are cut
// into equal parts (StreamParts), parts into slots of 32 tiles, and a warp has
// four neighbouring tiles of each slot. It keeps four sums of an output apart:
// one for each of these tiles, or for each half of every other tile where
// halves have scales of their own. At the end of a part the four sums are added
// up, then those of the warps, then those of the parts.
#include <algorithm>

#include "kernels/cuda/mat_mul/stream_rows.cuh"
#include "kernels/cuda/mat_mul/weight_stream.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = kProductThreads + kWarpThreads;
constexpr int kBlocks = 2;  // of a multiprocessor, of this kernel or of two

// What a launch computes, beside its matrices.
struct Work {
  StreamParts parts;
  int32_t n_row_tiles;  // of all products
  int32_t n_slots;      // of the ring
  // The blocks that have all row tiles between them. If every block has one
  // part of the columns, there are n_parts times as many.
  int32_t n_groups;
  bool accumulate;
};

// Sums of blocks that have some of the columns.
struct PartSums {
  float* sums;      // [n_parts, n_row_tiles, outputs of a tile, rows]
  int32_t* counts;  // [n_groups], zeros
};

// The entries of `kept`: an entry has the sums of all warps over one part of
// the columns for one row of tiles.
template <int kRows>
struct Kept {
  static constexpr int kOutputs = static_cast<int>(kTileRows);
  static constexpr int kEntries = kRows == 1 ? kMostStreamParts : 1;
  static constexpr int kOfWarp = kOutputs * kRows;
  static constexpr int kOfEntry = kProductWarps * kOfWarp;
  // While some threads still read what was kept, others write the next.
  static constexpr int kBuffers = 2;
  static constexpr int64_t kBytes =
      int64_t{kBuffers} * kEntries * kOfEntry * int64_t{sizeof(float)};
};

template <DType kType, int kRows>
constexpr int64_t FixedBytes(const StreamParts& parts) {
  return RowColumns<kType, kRows>::Bytes(parts.TilesOfBlock(kRows)) +
         Kept<kRows>::kBytes + kSlotBarrierBytes + int64_t{sizeof(Barrier)};
}

// The block's shared memory.
template <DType kType, int kRows>
struct Places {
  std::byte* slots;
  RowColumns<kType, kRows> columns;
  float* kept;
  std::byte* barriers;  // of the ring
  Barrier* meeting;     // of the warps that multiply

  __device__ Places(std::byte* shared, int n_slots, int n_tiles)
      : slots(shared),
        columns(shared + n_slots * SlotOf(kType).bytes, n_tiles),
        kept(reinterpret_cast<float*>(columns.End())),
        barriers(reinterpret_cast<std::byte*>(kept) + Kept<kRows>::kBytes),
        meeting(reinterpret_cast<Barrier*>(barriers + kSlotBarrierBytes)) {}
};

// Goes through the runs of tiles that a block multiplies, in order: row of
// tiles after row of tiles, and the slots of each part after each other.
struct RunCursor {
  int row_tile;
  int step;
  int begin;  // columns of tiles, of the block
  int end;
  int part_tiles;
  int col;
  int part_end;

  __device__ RunCursor(int row_tile, int step, int begin, int end,
                       int part_tiles)
      : row_tile(row_tile),
        step(step),
        begin(begin),
        end(end),
        part_tiles(part_tiles) {
    Start(begin);
  }
  __device__ void Start(int first) {
    col = first;
    part_end = std::min(first + part_tiles, end);
  }
  __device__ int Tiles() const {
    const int left = part_end - col;
    return left < kSlotTiles ? left : kSlotTiles;
  }
  // Returns true at the end of a part.
  __device__ bool Advance() {
    col += kSlotTiles;
    if (col < part_end) return false;
    if (part_end < end) {
      Start(part_end);
    } else {
      row_tile += step;
      Start(begin);
    }
    return true;
  }
};

// Adds up what the warps have of an output in one entry, in the order of
// AddWarps.
template <int kRows>
__device__ float AddKept(const float* entry) {
  float sums[kProductWarps];
#pragma unroll
  for (int w = 0; w < kProductWarps; ++w) {
    sums[w] = entry[w * Kept<kRows>::kOfWarp];
  }
#pragma unroll
  for (int stride = kProductWarps / 2; stride > 0; stride /= 2) {
#pragma unroll
    for (int w = 0; w < stride; ++w) sums[w] += sums[w + stride];
  }
  return sums[0];
}

// Stores the sum of output `i` of the row of tiles `row_tile` of all products:
// i is output * kRows + row.
template <int kRows>
__device__ void StoreOutput(const Products& products, int row_tile, int i,
                            int n_rows, bool accumulate, float sum) {
  const Product& product = FindProduct(products, row_tile);
  const int64_t output = row_tile * kTileRows + i / kRows;
  const int row = i % kRows;
  if (output >= product.w.rows || row >= n_rows) return;
  float& to = product.out[row * product.w.rows + output];
  const float scaled = sum * product.w.Scale();
  to = accumulate ? to + scaled : scaled;
}

// Stores what is kept of one row, which has all parts: `n` rows of tiles from
// `first` on.
template <int kRows>
__device__ void StoreWhole(const Products& products, const Work& work,
                           const float* kept, int first, int n, int n_rows) {
  const int n_parts = work.parts.n_parts;
  for (int at = ThreadIndex(); at < n * Kept<kRows>::kOfWarp;
       at += kProductThreads) {
    const int tile = at / Kept<kRows>::kOfWarp;
    const int i = at % Kept<kRows>::kOfWarp;
    const float* entry = kept + tile * n_parts * Kept<kRows>::kOfEntry + i;
    float sum = AddKept<kRows>(entry);
    for (int p = 1; p < n_parts; ++p) {
      sum += AddKept<kRows>(entry + p * Kept<kRows>::kOfEntry);
    }
    StoreOutput<kRows>(products, first + tile * work.n_groups, i, n_rows,
                       work.accumulate, sum);
  }
}

// Where the sums of a part of a row of tiles lie.
template <int kRows>
__device__ float* SumsOf(const PartSums& to, const Work& work, int part,
                         int row_tile) {
  return to.sums +
         (int64_t{part} * work.n_row_tiles + row_tile) * Kept<kRows>::kOfWarp;
}

// The last of the blocks that have the same rows of tiles adds up the parts.
template <int kRows>
__device__ void AddParts(const Products& products, const Work& work,
                         const PartSums& from, int group, int n_rows,
                         int32_t* word) {
  const int n_parts = work.parts.n_parts;
  if (!IsLastToArrive(from.counts + group, n_parts, word)) return;
  const int n_tiles =
      (work.n_row_tiles - group + work.n_groups - 1) / work.n_groups;
  for (int at = ThreadIndex(); at < n_tiles * Kept<kRows>::kOfWarp;
       at += kThreads) {
    const int row_tile = group + at / Kept<kRows>::kOfWarp * work.n_groups;
    const int i = at % Kept<kRows>::kOfWarp;
    float parts[kMostStreamParts];
#pragma unroll
    for (int p = 0; p < kMostStreamParts; ++p) {
      if (p < n_parts) {
        parts[p] = LoadWritten(SumsOf<kRows>(from, work, p, row_tile) + i);
      }
    }
    float sum = parts[0];
#pragma unroll
    for (int p = 1; p < kMostStreamParts; ++p) {
      if (p < n_parts) sum += parts[p];
    }
    StoreOutput<kRows>(products, row_tile, i, n_rows, work.accumulate, sum);
  }
}

template <DType kType, int kRows>
__global__ void __launch_bounds__(kThreads, kBlocks)
    StreamTiles(const __grid_constant__ Products products, Activations x,
                Work work, PartSums part_sums) {
  LetNextKernelBegin();
  // One row has all parts in each block, more rows have one.
  constexpr bool kIsWhole = kRows == 1;
  const auto col_tiles = static_cast<int>(products.of[0].w.at.col_tiles);
  const int n_parts = work.parts.n_parts;
  const int part = kIsWhole ? 0 : static_cast<int>(blockIdx.x) % n_parts;
  const int group = static_cast<int>(blockIdx.x) / (kIsWhole ? 1 : n_parts);
  const int begin = part * work.parts.tiles;
  const int end =
      kIsWhole ? col_tiles : std::min(begin + work.parts.tiles, col_tiles);
  const Places<kType, kRows> places(DynamicShared(), work.n_slots, end - begin);
  const WeightRing<kType> ring(places.slots, places.barriers, work.n_slots);
  const bool copies = ThreadIndex() == kProductThreads;
  SlotCursor at;
  RunCursor run(group, work.n_groups, begin, end, work.parts.tiles);
  const auto copy = [&] {
    int row_tile = run.row_tile;
    const Product& product = FindProduct(products, row_tile);
    ring.Copy(at.slot, product.w, row_tile, run.col, run.Tiles());
    at.Advance(work.n_slots);
    run.Advance();
  };
  if (copies) {
    ring.Init();
    InitBarrier(places.meeting, kProductThreads);
    PublishBarriers();
    for (int i = 0; i < work.n_slots && run.row_tile < work.n_row_tiles; ++i) {
      copy();
    }
  }
  WaitForKernelsBefore();
  places.columns.template Fill<kThreads>(x, begin);
  __syncthreads();
  if (copies) {
    while (run.row_tile < work.n_row_tiles) {
      WaitFor(ring.empty + at.slot, at.phase ^ 1);
      copy();
    }
  }
  const int warp = WarpIndex();
  if (warp < kProductWarps) {
    float* kept = places.kept;
    int n_kept = 0;     // entries
    int first_row = 0;  // the row of tiles of the first
    int parity = 0;     // of the meeting, and which buffer is written
    StreamSums<kType, kRows> sums;
    while (run.row_tile < work.n_row_tiles) {
      const int row_tile = run.row_tile;
      WaitFor(ring.full + at.slot, at.phase);
      sums.Add(ring.Reader(at.slot, warp * kWarpTiles), places.columns,
               run.col - begin, run.Tiles());
      __syncwarp();
      if (LaneIndex() == 0) Arrive(ring.empty + at.slot);
      at.Advance(work.n_slots);
      if (!run.Advance()) continue;
      sums.Take(kept +
                (parity * Kept<kRows>::kEntries + n_kept) *
                    Kept<kRows>::kOfEntry +
                warp * Kept<kRows>::kOfWarp);
      if (n_kept == 0) first_row = row_tile;
      ++n_kept;
      const bool is_end = run.row_tile != row_tile || !kIsWhole;
      const bool is_last = run.row_tile >= work.n_row_tiles;
      if (!is_end || (!is_last && n_kept + (kIsWhole ? n_parts : 1) <=
                                      Kept<kRows>::kEntries)) {
        continue;
      }
      Arrive(places.meeting);
      WaitFor(places.meeting, parity);
      const float* all =
          kept + parity * Kept<kRows>::kEntries * Kept<kRows>::kOfEntry;
      if (kIsWhole || n_parts == 1) {
        StoreWhole<kRows>(products, work, all, first_row, n_kept / n_parts,
                          x.n_rows);
      } else {
        float* to = SumsOf<kRows>(part_sums, work, part, row_tile);
        for (int i = ThreadIndex(); i < Kept<kRows>::kOfWarp;
             i += kProductThreads) {
          to[i] = AddKept<kRows>(all + i);
        }
      }
      parity ^= 1;
      n_kept = 0;
    }
  }
  if (kIsWhole || n_parts == 1) return;
  __syncthreads();
  AddParts<kRows>(products, work, part_sums, group, x.n_rows,
                  reinterpret_cast<int32_t*>(places.kept));
}

// The shared memory of a block: with as many slots as fit in what two blocks
// of a multiprocessor can have, less something for small kernels beside them.
template <DType kType, int kRows>
struct Room {
  static constexpr int64_t kFewestSlots = 2;
  static constexpr int64_t kSharedBytes = int64_t{kRows == 1 ? 104 : 112} << 10;

  int64_t n_slots;
  int64_t bytes;

  explicit Room(const StreamParts& parts) {
    const int64_t fixed = FixedBytes<kType, kRows>(parts);
    n_slots = std::clamp<int64_t>((kSharedBytes - fixed) / SlotOf(kType).bytes,
                                  0, kMostSlots);
    bytes = n_slots * SlotOf(kType).bytes + fixed;
  }
  bool Fits() const { return n_slots >= kFewestSlots; }
};

template <DType kType, int kRows>
void LaunchStream(const Context& context,
                  std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  int64_t n_row_tiles = 0;
  const Products all = ProductsOf(products, 1, n_row_tiles);
  const StreamParts parts(first.w.cols / kTileCols);
  const Room<kType, kRows> room(parts);
  const int64_t of_group = kRows == 1 ? 1 : parts.n_parts;
  const int64_t n_blocks = context.n_multiprocessors *
                           (kRows == 1 ? context.stream_blocks : kBlocks);
  const int64_t n_groups = std::clamp<int64_t>(n_blocks / of_group, 1,
                                               std::min(n_row_tiles, kCounts));
  const Work work = {
      .parts = parts,
      .n_row_tiles = static_cast<int32_t>(n_row_tiles),
      .n_slots = static_cast<int32_t>(room.n_slots),
      .n_groups = static_cast<int32_t>(n_groups),
      .accumulate = first.accumulate,
  };
  const PartSums sums = {
      .sums = reinterpret_cast<float*>(context.scratch),
      .counts = context.counts,
  };
  Launch(StreamTiles<kType, kRows>, {n_groups * of_group}, kThreads, room.bytes,
         context.queue, all, Activations(first), work, sums);
}

// The scratch memory that the parts of `n_outputs` outputs take.
int64_t PartBytes(const StreamParts& parts, int64_t n_outputs) {
  if (parts.n_parts == 1) return 0;
  return parts.n_parts * (n_outputs + kTileRows) * kGroupRows *
         int64_t{sizeof(float)};
}

}  // namespace

bool CanStream(const DeviceFacts& facts) {
  constexpr int64_t kSharedBytes = Room<DType::kQ8_0, kGroupRows>::kSharedBytes;
  if (facts.shared_bytes < kSharedBytes) return false;
#ifdef PLIMSOLL_CUDA_EMULATED
  return true;
#else
  // Code for compute capability 8.0 has no such copies, wherever it runs.
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, StreamTiles<DType::kQ8_0, 1>) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.ptxVersion >= 90;
#endif
}

bool HasStreamProduct(const WeightMatrix& w) {
  const StreamParts parts(w.cols / kTileCols);
  // A launch has up to kMaxProducts matrices.
  if (parts.n_parts > kMostStreamParts ||
      PartBytes(parts, w.rows) * int64_t{kMaxProducts} > kScratchBytes) {
    return false;
  }
  bool fits = false;
  WithType(w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      fits =
          Room<kType, 1>(parts).Fits() && Room<kType, kGroupRows>(parts).Fits();
    }
  });
  return fits;
}

void MultiplyStream(const Context& context,
                    std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      if (first.n_rows == 1) {
        LaunchStream<kType, 1>(context, products);
      } else {
        LaunchStream<kType, kGroupRows>(context, products);
      }
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
