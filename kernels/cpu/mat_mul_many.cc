// Integer products of many activation rows with fewer multiplications than
// multiply-adds, for CPUs with more vector adders than vector multipliers.
//
// Winograd's inner product (1968) takes two columns c and d together:
//   a_c w_c + a_d w_d = (a_c + w_d) (a_d + w_c) - a_c a_d - w_c w_d.
// Of the last two, the cross products, one belongs to the activations
// (packed_row.h), one to the weights, and both serve many outputs. Sums are
// integers modulo 2^32, which end where plain ones do, so that results are
// mat_mul.cc's to the bit.
//
// Of a block's eight groups of four columns five go this way, which gives all
// four vector units of a Zen 5 as much to do: 25 instructions for 512
// multiply-adds, 13 of which multiply, where plain products are 19 and 18. A
// bare loop of vpdpwssd does 240e9 multiply-adds a second on a core (of 252e9
// at its peak), a bare loop of this 295e9, whole products 262e9 (Q4_0) to 205e9
// (Q6_K), where mat_mul.cc does 201e9 and 172e9.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul_many.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "hwy/cache_control.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/pairs-inl.h"
#include "kernels/packed_row.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_DL
namespace {

// A register block: sums and totals of so many rows and panels, with the
// weights of a group of columns, fill the register file.
constexpr int kGroupPanels = 2;
constexpr int kBlockRows = 6;
// Activation rows that decoded weights meet, and how many of their blocks of 32
// columns, 326 KiB, stay in the second-level cache while panels go by.
constexpr int64_t kTileRows = 174;
constexpr int64_t kSlabBlocks = 24;
constexpr int64_t kRangePanels = 16;
// Blocks of 32 columns that are decoded at a time, into the first-level cache:
// 8 KiB a panel.
constexpr int64_t kChunkBlocks = 8;
// How far ahead weights are asked for: a chunk of four bits a weight.
constexpr int64_t kAheadBytes = 2304;
constexpr int kPairs = 16;  // of a block's columns
constexpr int kGroups = kPairs / 2;

// How the weights of 32 columns are scaled.
template <bool kMin, bool kHalf>
struct Form {
  static constexpr bool kHasMin = kMin;
  static constexpr int kHalves = kHalf ? 2 : 1;  // columns with one scale
  // Groups of the first scale's columns that are multiplied together.
  static constexpr int kCross = std::min(kCrossGroups, kGroups / kHalves);
};

// Columns of kGroupPanels panels.
struct Chunk {
  HWY_ALIGN int16_t pairs[kChunkBlocks][kPairs][kGroupPanels][2 * kPanelRows];
  HWY_ALIGN int32_t minus_cross[kChunkBlocks][kGroupPanels][kPanelRows];
  HWY_ALIGN float scales[kChunkBlocks][2][kGroupPanels][kPanelRows];
  HWY_ALIGN float mins[kChunkBlocks][kGroupPanels][kPanelRows];
};

static_assert(kVecs == 1, "a vector has all rows of a panel");

HWY_INLINE VI AddProducts(VI sum, VS a, VS b) {
  return VI{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};
}

template <class Decoder, class Form>
void DecodeChunk(const PanelData& panel, int64_t first, int64_t n_blocks,
                 size_t to_panel, Chunk& chunk) {
  for (int64_t s = 0; s < n_blocks; ++s) {
    const Columns at = ColumnsAt<Decoder>(panel, first + s);
    PrefetchAhead<Decoder>(at, kAheadBytes);
    Scales scales;
    Decoder::LoadScales(at, scales);
    StoreRows16(scales.d[0], chunk.scales[s][0][to_panel]);
    if constexpr (Decoder::kHasHalfScales) {
      StoreRows16(scales.d[1], chunk.scales[s][1][to_panel]);
    }
    if constexpr (Decoder::kHasMin) {
      StoreRows16(scales.m, chunk.mins[s][to_panel]);
    }
    Pairs pairs[kPairs];
    for (int i = 0; i < kPairs / 2; ++i) {
      Decoder::Decode(at, i, pairs[i], pairs[i + kPairs / 2]);
    }
    VI cross = hn::Zero(DI());
    for (int g = 0; g < Form::kCross; ++g) {
      cross = AddProducts(cross, pairs[2 * g].v[0], pairs[2 * g + 1].v[0]);
    }
    hn::Store(hn::Neg(cross), DI(), chunk.minus_cross[s][to_panel]);
    for (int i = 0; i < kPairs; ++i) {
      hn::Store(pairs[i].v[0], DS(), chunk.pairs[s][i][to_panel]);
    }
  }
}

// What a chunk meets: a row's values, scales, scaled sums and cross products at
// the chunk's first column.
struct Activations {
  const uint8_t* values;
  const uint8_t* scales;
  const uint8_t* sums;
  const uint8_t* cross;
  int64_t row_bytes;

  void Skip(int64_t n_rows) {
    values += n_rows * row_bytes;
    scales += n_rows * row_bytes;
    sums += n_rows * row_bytes;
    cross += n_rows * row_bytes;
  }
};

// Four bytes in every lane.
HWY_INLINE VI Broadcast(const uint8_t* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof(value));
  return hn::Set(DI(), value);
}

// Of a row.
using Totals = float[kGroupPanels][kPanelRows];

// Of row m and block s: the sums before its products.
template <class Form>
HWY_INLINE void BeginSums(const Chunk& chunk, int64_t s, int half,
                          const Activations& a, int m,
                          VI (&sums)[kGroupPanels]) {
  const uint8_t* cross =
      a.cross + m * a.row_bytes + s * 8 + (Form::kHalves == 1 ? 4 : 0);
  HWY_UNROLL(2)
  for (int p = 0; p < kGroupPanels; ++p) {
    sums[p] = half == 0 ? hn::Sub(hn::Load(DI(), chunk.minus_cross[s][p]),
                                  Broadcast(cross))
                        : hn::Zero(DI());
  }
}

// acc += the same sums after them, scaled.
HWY_INLINE void AddSums(const Chunk& chunk, int64_t s, int half,
                        const Activations& a, int m,
                        const VI (&sums)[kGroupPanels],
                        VF (&acc)[kGroupPanels]) {
  const VF scale = hn::Set(DF(), LoadFloat(a.scales + m * a.row_bytes + s * 4));
  HWY_UNROLL(2)
  for (int p = 0; p < kGroupPanels; ++p) {
    const VF both = hn::Mul(hn::Load(DF(), chunk.scales[s][half][p]), scale);
    acc[p] = hn::MulAdd(hn::ConvertTo(DF(), sums[p]), both, acc[p]);
  }
}

// totals[m] += the chunk times row m, for kRows rows; `is_first` sets them.
template <class Form, int kRows>
void MultiplyChunk(const Chunk& chunk, int64_t n_blocks, const Activations& a,
                   bool is_first, Totals* totals) {
  VF acc[kRows][kGroupPanels];
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(2)
    for (int p = 0; p < kGroupPanels; ++p) {
      acc[m][p] = is_first ? hn::Zero(DF()) : hn::Load(DF(), totals[m][p]);
    }
  }
  HWY_UNROLL(8)
  for (int m = kRows; m < 2 * kRows; ++m) {
    hwy::Prefetch(a.scales + m * a.row_bytes);
    hwy::Prefetch(a.cross + m * a.row_bytes);
    if constexpr (Form::kHasMin) hwy::Prefetch(a.sums + m * a.row_bytes);
    hwy::Prefetch(totals[m][0]);
    hwy::Prefetch(totals[m][1]);
  }
  for (int64_t s = 0; s < n_blocks; ++s) {
    const uint8_t* values = a.values + s * 64;
    HWY_UNROLL(8)
    for (int m = 0; m < kRows; ++m) {
      hwy::Prefetch(values + (m + kRows) * a.row_bytes);
    }
    HWY_UNROLL(2)
    for (int half = 0; half < Form::kHalves; ++half) {
      VI sums[kRows][kGroupPanels];
      HWY_UNROLL(8)
      for (int i = 0; i < kGroups / Form::kHalves; ++i) {
        // Both kinds in turn, so that all units have work at any time. Measured
        // beside other orders: up to 1.15 times as fast.
        constexpr int kOrder[kGroups] = {5, 0, 6, 1, 2, 7, 3, 4};
        const int g = Form::kHalves == 1 ? kOrder[i] : half * (kGroups / 2) + i;
        const VS first0 = hn::Load(DS(), chunk.pairs[s][2 * g][0]);
        const VS first1 = hn::Load(DS(), chunk.pairs[s][2 * g][1]);
        const VS second0 = hn::Load(DS(), chunk.pairs[s][2 * g + 1][0]);
        const VS second1 = hn::Load(DS(), chunk.pairs[s][2 * g + 1][1]);
        HWY_UNROLL(8)
        for (int m = 0; m < kRows; ++m) {
          // A row's sums begin and end beside other rows' products: more
          // instructions of one kind together would leave units without work.
          if (i == 0) BeginSums<Form>(chunk, s, half, a, m, sums[m]);
          const uint8_t* at = values + m * a.row_bytes + g * 8;
          const VS x = hn::BitCast(DS(), Broadcast(at));
          const VS y = hn::BitCast(DS(), Broadcast(at + 4));
          VI& sum0 = sums[m][0];
          VI& sum1 = sums[m][1];
          if (g < Form::kCross) {
            sum0 = AddProducts(sum0, hn::Add(x, second0), hn::Add(y, first0));
            sum1 = AddProducts(sum1, hn::Add(x, second1), hn::Add(y, first1));
          } else {
            sum0 = AddProducts(AddProducts(sum0, x, first0), y, second0);
            sum1 = AddProducts(AddProducts(sum1, x, first1), y, second1);
          }
          if (i == kGroups / Form::kHalves - 1 && m > 0) {
            AddSums(chunk, s, half, a, m - 1, sums[m - 1], acc[m - 1]);
          }
        }
      }
      AddSums(chunk, s, half, a, kRows - 1, sums[kRows - 1], acc[kRows - 1]);
    }
    if constexpr (Form::kHasMin) {
      HWY_UNROLL(8)
      for (int m = 0; m < kRows; ++m) {
        const VF sum =
            hn::Set(DF(), LoadFloat(a.sums + m * a.row_bytes + s * 4));
        HWY_UNROLL(2)
        for (int p = 0; p < kGroupPanels; ++p) {
          acc[m][p] =
              hn::MulAdd(hn::Load(DF(), chunk.mins[s][p]), sum, acc[m][p]);
        }
      }
    }
  }
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(2)
    for (int p = 0; p < kGroupPanels; ++p) {
      hn::Store(acc[m][p], DF(), totals[m][p]);
    }
  }
}

// All rows, in the fewest register blocks, of sizes as even as can be.
template <class Form>
void MultiplyRows(const Chunk& chunk, int64_t n_blocks, Activations a,
                  int64_t n_rows, bool is_first, Totals* totals) {
  for (int64_t left = CeilDiv(n_rows, kBlockRows); left > 0; --left) {
    const int64_t n = CeilDiv(n_rows, left);
    switch (n) {
      case 6:
        MultiplyChunk<Form, 6>(chunk, n_blocks, a, is_first, totals);
        break;
      case 5:
        MultiplyChunk<Form, 5>(chunk, n_blocks, a, is_first, totals);
        break;
      case 4:
        MultiplyChunk<Form, 4>(chunk, n_blocks, a, is_first, totals);
        break;
      case 3:
        MultiplyChunk<Form, 3>(chunk, n_blocks, a, is_first, totals);
        break;
      case 2:
        MultiplyChunk<Form, 2>(chunk, n_blocks, a, is_first, totals);
        break;
      default:
        MultiplyChunk<Form, 1>(chunk, n_blocks, a, is_first, totals);
        break;
    }
    n_rows -= n;
    totals += n;
    a.Skip(n);
  }
}

// What of the activations is multiplied at a time.
struct Tile {
  int64_t first;  // row
  int64_t n_rows;
};

// totals[m] += columns [32 begin, 32 end) of two panels times row m of a tile.
// The second panel may be the first again.
template <class Decoder>
void MultiplySlab(const MatMulArgs& args, const Tile& tile,
                  const PanelData (&panels)[kGroupPanels], int64_t begin,
                  int64_t end, Totals* totals) {
  using TypeForm = Form<Decoder::kHasMin, Decoder::kHasHalfScales>;
  const int64_t row_bytes = PackedRowBytes(args.w.cols);
  const auto* row =
      reinterpret_cast<const uint8_t*>(args.packed) + tile.first * row_bytes;
  Chunk chunk;
  for (int64_t s = begin; s < end; s += kChunkBlocks) {
    const int64_t n_blocks = std::min(kChunkBlocks, end - s);
    for (size_t p = 0; p < kGroupPanels; ++p) {
      DecodeChunk<Decoder, TypeForm>(panels[p], s, n_blocks, p, chunk);
    }
    const Activations a = {
        .values = row + s * 64,
        .scales = row + PackedScalesOffset(args.w.cols) + s * 4,
        .sums = row + PackedSumsOffset(args.w.cols) + s * 4,
        .cross = row + PackedCrossOffset(args.w.cols) + s * 8,
        .row_bytes = row_bytes};
    MultiplyRows<TypeForm>(chunk, n_blocks, a, tile.n_rows, s == 0, totals);
  }
}

void AskForOutputs(const MatMulArgs& args, const Tile& tile, int64_t panel) {
  for (int64_t m = tile.first; m < tile.first + tile.n_rows; ++m) {
    const float* out = args.out + m * args.w.rows + panel * kPanelRows;
    __builtin_prefetch(out, 1, 2);
    __builtin_prefetch(out + kPanelRows, 1, 2);
  }
}

// Outputs of panels [begin, end), at most kRangePanels, for a tile's rows.
template <class Decoder>
void MultiplyTile(const MatMulArgs& args, const Tile& tile, int64_t begin,
                  int64_t end) {
  HWY_ALIGN Totals totals[kRangePanels / kGroupPanels][kTileRows];
  const int64_t n_blocks = args.w.cols / 32;
  for (int64_t s = 0; s < n_blocks; s += kSlabBlocks) {
    const int64_t slab_end = std::min(s + kSlabBlocks, n_blocks);
    for (int64_t p = begin; p < end; p += kGroupPanels) {
      if (slab_end == n_blocks) AskForOutputs(args, tile, p);
      // A panel alone is multiplied twice; the second time for nothing.
      MultiplySlab<Decoder>(
          args, tile,
          {PanelOf(args.w, p), PanelOf(args.w, std::min(p + 1, end - 1))}, s,
          slab_end, totals[(p - begin) / kGroupPanels]);
    }
  }
  for (int64_t m = 0; m < tile.n_rows; ++m) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t i = p - begin;
      StoreOut(LoadRows(totals[i / kGroupPanels][m][i % kGroupPanels]),
               std::min(kPanelRows, args.w.rows - p * kPanelRows),
               args.accumulate,
               args.out + (tile.first + m) * args.w.rows + p * kPanelRows);
    }
  }
}

template <class Decoder>
void MultiplyTiles(const MatMulArgs& args, int64_t begin, int64_t end) {
  const int64_t n_tiles = CeilDiv(args.n_rows, kTileRows);
  for (int64_t t = 0; t < n_tiles; ++t) {
    // Whole register blocks, but for the last tile's.
    const auto begin_of = [&](int64_t i) {
      return std::min(
          CeilDiv(args.n_rows * i, n_tiles * kBlockRows) * kBlockRows,
          args.n_rows);
    };
    const Tile tile = {begin_of(t), begin_of(t + 1) - begin_of(t)};
    for (int64_t p = begin; p < end; p += kRangePanels) {
      MultiplyTile<Decoder>(args, tile, p, std::min(p + kRangePanels, end));
    }
  }
}

}  // namespace

void MatMulManyHere(const MatMulArgs& args, int64_t begin, int64_t end) {
  WithDecoder(args.w, [&](auto decoder) {
    MultiplyTiles<decltype(decoder)>(args, begin, end);
  });
}
#else
void MatMulManyHere(const MatMulArgs& /*args*/, int64_t /*begin*/,
                    int64_t /*end*/) {
  PLIMSOLL_CHECK(false, "only the path AVX3_DL has it beside it");
}
#endif

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(MatMulManyHere);

void MatMulMany(const MatMulArgs& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(MatMulManyHere)(args, begin, end);
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
