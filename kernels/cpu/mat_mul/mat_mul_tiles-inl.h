// Integer products of many activation rows on a matrix unit with tiles (AMX):
// 16 rows times the 16 outputs of a panel, over one scale's columns.
//
// An int16 activation is 256 * high + low, each a byte, so its product with a
// weight is two products of bytes. Their sums are the same integers as those of
// pairs-inl.h, and the float32 operations after them have the same order, so
// results are bit-equal to those of the other paths. A template parameter does
// the tiles' work, so that tests can run this file where there is no such unit.
// Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_MAT_MUL_TILES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_MAT_MUL_TILES_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_MAT_MUL_TILES_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_MAT_MUL_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/backend.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/quant/packed_row.h"

// These attributes let the tiles' instructions be inlined. The file that
// includes this one begins in the same way.
#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",amx-tile,amx-int8")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Activation rows, panels and columns that a task holds at a time.
constexpr int64_t kTileM = 16;  // activation rows of a tile
constexpr int64_t kTaskRows = 4 * kTileM;
constexpr int64_t kTaskPanels = 16;
constexpr int64_t kChunkBlocks = kSliceBlocks;  // blocks of 32 columns
constexpr int64_t kChunkCols = kChunkBlocks * 32;

// The eight tiles that `Tiles` has: sums of two panels for high and for low
// bytes; the bytes of activations; the weights of two panels.
constexpr int kHighSums = 0;
constexpr int kLowSums = 2;
constexpr int kHighBytes = 4;
constexpr int kLowBytes = 5;
constexpr int kWeights = 6;

// What a task does: it multiplies panels [panel, panel + n_panels), at most
// kTaskPanels, with rows [first_row, first_row + n_rows), at most kTaskRows.
struct TileTask {
  int64_t panel;
  int64_t n_panels;
  int64_t first_row;
  int64_t n_rows;
};

// A chunk of columns of a task's packed activations. Pointers are those of the
// first row, and rows are `row_bytes` apart.
struct PackedChunk {
  const uint8_t* values;
  const uint8_t* scales;
  const uint8_t* sums;
  int64_t row_bytes;
  int64_t n_rows;
  int64_t n_blocks;
};

// The high and low bytes of a chunk of activations.
struct SplitRows {
  HWY_ALIGN int8_t high[kTaskRows][kChunkCols];
  HWY_ALIGN uint8_t low[kTaskRows][kChunkCols];
};

inline void SplitActivations(const PackedChunk& chunk, SplitRows& split) {
  const int64_t n_rows = chunk.n_rows;
  const int64_t n_cols = chunk.n_blocks * 32;
  for (int64_t m = 0; m < n_rows; ++m) {
    const uint8_t* from = chunk.values + m * chunk.row_bytes;
    for (int64_t c = 0; c < n_cols; ++c) {
      split.low[m][c] = from[2 * c];
      split.high[m][c] = static_cast<int8_t>(from[2 * c + 1]);
    }
  }
}

// The columns of two panels: weights[s][p][k] is columns 4k .. 4k + 3 of the 16
// rows, with each row's four columns side by side.
struct PanelPair {
  HWY_ALIGN int8_t weights[kChunkBlocks][2][8][64];
  HWY_ALIGN float scales[kChunkBlocks][2][2][16];  // [s][half][p]
  HWY_ALIGN float mins[kChunkBlocks][2][2][16];
};

// Stores two pairs of columns as four bytes of each row.
HWY_INLINE void StoreBytes(const Pairs& first, const Pairs& second,
                           int8_t* to) {
  const DI d;
  for (size_t j = 0; j < kVecs; ++j) {
    const VI a = hn::BitCast(d, first.v[j]);
    const VI b = hn::BitCast(d, second.v[j]);
    const VI lower = hn::Or(hn::And(a, hn::Set(d, 0xFF)),
                            hn::And(hn::ShiftRight<8>(a), hn::Set(d, 0xFF00)));
    const VI upper =
        hn::Or(hn::And(hn::ShiftLeft<16>(b), hn::Set(d, 0xFF0000)),
               hn::And(hn::ShiftLeft<8>(b),
                       hn::Set(d, static_cast<int32_t>(~0xFFFFFF))));
    hn::Store(hn::Or(lower, upper), d,
              reinterpret_cast<int32_t*>(to) + j * kLanes);
  }
}

// Decodes `n_blocks` blocks of columns of a panel, from block `first` on, into
// half `p` of a pair.
template <class Decoder>
PLIMSOLL_NO_IPA void DecodePanel(const PanelData& panel, int64_t first,
                                 int64_t n_blocks, size_t p, PanelPair& pair) {
  SliceBuffer buffer;
  const PanelData slice = SliceOf(panel, first, buffer);
  for (int64_t s = 0; s < n_blocks; ++s) {
    const auto at = ColumnsAt<Decoder>(slice, s);
    Scales scales;
    Decoder::LoadScales(at, scales);
    for (int half = 0; half < (Decoder::kHasHalfScales ? 2 : 1); ++half) {
      StoreRows16(scales.d[half], pair.scales[s][half][p]);
      if constexpr (Decoder::kHasMin) {
        StoreRows16(scales.m[half], pair.mins[s][half][p]);
      }
    }
    for (int i = 0; i < 8; i += 2) {
      Pairs low[2];
      Pairs high[2];
      Decoder::Decode(at, i, low[0], high[0]);
      Decoder::Decode(at, i + 1, low[1], high[1]);
      StoreBytes(low[0], low[1], pair.weights[s][p][i / 2]);
      StoreBytes(high[0], high[1], pair.weights[s][p][4 + i / 2]);
    }
  }
}

using TileSums = int32_t[kTileM][16];

// Floats from the accumulators of one activation row to those of the next:
// [kTaskPanels][16].
constexpr int64_t kAccStride = kTaskPanels * 16;

// The activation rows of a tile, whose scales are `row_bytes` apart.
struct TileRows {
  const uint8_t* scales;
  int64_t row_bytes;
  int64_t n;
};

// acc[row] += (256 * high + low) * (scale of the weights * scale of the row).
HWY_INLINE void AddTile(const TileSums& high, const TileSums& low,
                        const Rows& scale, TileRows rows, float* acc) {
  for (int64_t m = 0; m < rows.n; ++m, acc += kAccStride) {
    RowSums sums;
    for (size_t j = 0; j < kVecs; ++j) {
      const VI upper = hn::ShiftLeft<8>(hn::Load(DI(), high[m] + j * kLanes));
      sums.v[j] = hn::Add(upper, hn::Load(DI(), low[m] + j * kLanes));
    }
    Rows total = LoadRows(acc);
    AddSums(sums, scale, LoadFloat(rows.scales + m * rows.row_bytes), total);
    StoreRows16(total, acc);
  }
}

// HalfSum of the activations of row m from `column` on.
inline float HalfSum(const SplitRows& split, int64_t m, int64_t column,
                     float scale) {
  int32_t sum = 0;
  for (int64_t c = column; c < column + 16; ++c) {
    sum += split.high[m][c] * 256 + split.low[m][c];
  }
  return scale * static_cast<float>(sum);
}

// Adds the minima of two panels, times `sum`, to a row's accumulators.
HWY_INLINE void AddMins(const float (&mins)[2][16], float sum, float* acc) {
  for (size_t p = 0; p < 2; ++p) {
    Rows total = LoadRows(acc + p * 16);
    AddScaled(LoadRows(mins[p]), sum, total);
    StoreRows16(total, acc + p * 16);
  }
}

// Multiplies a chunk of two panels with a chunk of activations, whose values
// are in `split`.
template <class Tiles, class Decoder>
void MultiplyPair(Tiles& tiles, const PanelPair& pair, const PackedChunk& chunk,
                  const SplitRows& split, float* acc) {
  const uint8_t* const scales = chunk.scales;
  const uint8_t* const sums = chunk.sums;
  const int64_t row_bytes = chunk.row_bytes;
  const int64_t n_rows = chunk.n_rows;
  const int64_t n_blocks = chunk.n_blocks;
  constexpr int64_t kHalves = Decoder::kHasHalfScales ? 2 : 1;
  constexpr int64_t kCols = 32 / kHalves;
  HWY_ALIGN TileSums results[4];
  for (int64_t s = 0; s < n_blocks; ++s) {
    for (int64_t half = 0; half < kHalves; ++half) {
      const int64_t k = half * kCols / 4;
      tiles.template Load<kWeights>(pair.weights[s][0][k], 64);
      tiles.template Load<kWeights + 1>(pair.weights[s][1][k], 64);
      const int64_t column = s * 32 + half * kCols;
      for (int64_t first = 0; first < n_rows; first += kTileM) {
        tiles.template Load<kHighBytes>(&split.high[first][column], kChunkCols);
        tiles.template Load<kLowBytes>(&split.low[first][column], kChunkCols);
        tiles.template Zero<kHighSums>();
        tiles.template Zero<kHighSums + 1>();
        tiles.template Zero<kLowSums>();
        tiles.template Zero<kLowSums + 1>();
        tiles.template AddSigned<kHighSums, kHighBytes, kWeights>();
        tiles.template AddSigned<kHighSums + 1, kHighBytes, kWeights + 1>();
        tiles.template AddUnsigned<kLowSums, kLowBytes, kWeights>();
        tiles.template AddUnsigned<kLowSums + 1, kLowBytes, kWeights + 1>();
        tiles.template Store<kHighSums>(results[kHighSums]);
        tiles.template Store<kHighSums + 1>(results[kHighSums + 1]);
        tiles.template Store<kLowSums>(results[kLowSums]);
        tiles.template Store<kLowSums + 1>(results[kLowSums + 1]);
        const int64_t n = std::min(kTileM, n_rows - first);
        for (size_t p = 0; p < 2; ++p) {
          AddTile(results[kHighSums + p], results[kLowSums + p],
                  LoadRows(pair.scales[s][half][p]),
                  {scales + first * row_bytes + s * 4, row_bytes, n},
                  acc + first * kAccStride + p * 16);
        }
      }
    }
    if constexpr (Decoder::kHasMin) {
      for (int64_t m = 0; m < n_rows; ++m) {
        const int64_t at = m * row_bytes + s * 4;
        for (int64_t half = 0; half < kHalves; ++half) {
          const float sum = kHalves == 1
                                ? LoadFloat(sums + at)
                                : HalfSum(split, m, s * 32 + half * kCols,
                                          LoadFloat(scales + at));
          AddMins(pair.mins[s][half], sum, acc + m * kAccStride);
        }
      }
    }
  }
}

// Computes the outputs of a task.
template <class Tiles, class Decoder>
void MultiplyTask(Tiles& tiles, const MatMulArgs& args, const TileTask& task) {
  SplitRows split;
  PanelPair pair;
  HWY_ALIGN float acc[kTaskRows * kAccStride] = {};
  const int64_t cols = args.w.cols;
  const int64_t row_bytes = PackedRowBytes(cols);
  const auto* packed = reinterpret_cast<const uint8_t*>(args.packed) +
                       task.first_row * row_bytes;
  for (int64_t s = 0; s < cols / 32; s += kChunkBlocks) {
    const PackedChunk chunk = {
        .values = packed + s * 64,
        .scales = packed + PackedScalesOffset(cols) + s * 4,
        .sums = packed + PackedSumsOffset(cols) + s * 4,
        .row_bytes = row_bytes,
        .n_rows = task.n_rows,
        .n_blocks = std::min(kChunkBlocks, cols / 32 - s)};
    SplitActivations(chunk, split);
    for (int64_t p = 0; p < task.n_panels; p += 2) {
      // A last panel without a partner is multiplied twice; the second result
      // is not used.
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t index = task.panel + std::min(p + i, task.n_panels - 1);
        DecodePanel<Decoder>(PanelOf(args.w, index), s, chunk.n_blocks,
                             static_cast<size_t>(i), pair);
      }
      MultiplyPair<Tiles, Decoder>(tiles, pair, chunk, split, acc + p * 16);
    }
  }
  for (int64_t m = 0; m < task.n_rows; ++m) {
    for (int64_t p = 0; p < task.n_panels; ++p) {
      const int64_t row = (task.panel + p) * kPanelRows;
      const int64_t n = std::min(kPanelRows, args.w.rows - row);
      const float* sums = acc + m * kAccStride + p * 16;
      float* out = args.out + (task.first_row + m) * args.w.rows + row;
      StoreOut(LoadRows(sums), args.w.HostScale(), n, args.accumulate, out);
    }
  }
}

template <class Tiles, class Decoder>
void MultiplyTasks(const MatMulArgs& args, int64_t begin, int64_t end) {
  Tiles tiles(Decoder::kHasHalfScales ? 16 : 32);
  for (int64_t panel = begin; panel < end; panel += kTaskPanels) {
    for (int64_t first = 0; first < args.n_rows; first += kTaskRows) {
      MultiplyTask<Tiles, Decoder>(
          tiles, args,
          {.panel = panel,
           .n_panels = std::min(kTaskPanels, end - panel),
           .first_row = first,
           .n_rows = std::min(kTaskRows, args.n_rows - first)});
    }
  }
}

// Computes panels [begin, end) of a product of quantised weights with packed
// activations. `Tiles` is constructed with the columns of a product, 16 or 32.
// Tiles 4 and 5 then have 16 rows of that many bytes, tiles 6 and 7 a quarter
// as many rows of 64 bytes, and tiles 0 to 3 are 16 rows of 16 int32.
template <class Tiles>
void MultiplyOnTiles(const MatMulArgs& args, int64_t begin, int64_t end) {
  WithDecoder(args.w, [&](auto decoder) {
    MultiplyTasks<Tiles, decltype(decoder)>(args, begin, end);
  });
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
