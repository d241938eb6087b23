// Integer products of many activation rows, for AVX-512 with VNNI. Weights are
// decoded once for some 170 rows, and rows are laid out in reading order
// (row_groups.h). Results are bit-equal to those of mat_mul.cc.
//
// On CPUs with more vector adders than vector multipliers, this file replaces
// some multiplications by additions. Winograd's inner product (1968) takes two
// columns c and d together:
//   a_c w_c + a_d w_d = (a_c + w_d) (a_d + w_c) - a_c a_d - w_c w_d.
// The last two terms are the cross products: one belongs to the activations
// (packed_row.h) and one to the weights, and both serve many outputs. Sums are
// integers modulo 2^32, so the results are those of plain products. Five of a
// block's eight groups of four columns are computed this way. That gives all
// four vector units of a Zen 5 the same load: 25 instructions for 512
// multiply-adds, 13 of which multiply; plain products take 19 instructions, 18
// of which multiply.
//
// Measured on a Zen 5, in 10^9 multiply-adds a second on a core, 512 rows: a
// bare loop of vpdpwssd does 240 (of 252 at its peak), a bare loop of the other
// kind 295. Whole products of Q4_0, Q4_K and Q6_K do 272, 258 and 207 with
// fewer multiplications, 200, 190 and 183 without, and 185, 153 and 140 in
// mat_mul.cc.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/mat_mul_many.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cpu/activate-inl.h"
#include "kernels/cpu/mat_mul/decoders-inl.h"
#include "kernels/cpu/mat_mul/next_chunk.h"
#include "kernels/cpu/mat_mul/pairs-inl.h"
#include "kernels/cpu/mat_mul/panel_pairs.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/quant/packed_row.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// This function is in pack_activations.cc.
void PackBlocksOfRow(const PackActivationsArgs& args, const RowGroups* groups,
                     BlocksOfRow blocks);

#if HWY_TARGET == HWY_AVX3_DL
namespace {

// A register block has as many panels and rows as let their sums and totals,
// with the weights of a group of columns, fill the register file.
constexpr int kGroupPanels = kPairPanels;
// Decoded weights meet this many groups of activation rows; below, how many
// blocks of 32 columns of these groups (326 KiB) stay in the second-level cache
// while panels go by. Fewer groups have room for more blocks, so that a panel
// is read from its begin to its end, as memory is read best.
constexpr int64_t kTileGroups = 29;
constexpr int64_t kSlabBlocks = 24;
constexpr int64_t kRangePanels = 16;
// Two matrices whose outputs are gated give this many panels each. Panels go in
// pairs because their outputs fill blocks of packed activations.
constexpr int64_t kGatedPanels = kRangePanels / 2;
constexpr int64_t kPanelsPerBlock = kActivationBlock / kPanelRows;
static_assert(kPanelsPerBlock == kGroupPanels);
// Blocks of 32 columns that are decoded at a time into the first-level cache: 8
// KiB a panel.
constexpr int64_t kChunkBlocks = kSliceBlocks;
static_assert(kSlabBlocks % kChunkBlocks == 0);
constexpr int64_t SlabBlocks(int64_t n_groups) {
  return kTileGroups * kSlabBlocks / n_groups / kChunkBlocks * kChunkBlocks;
}
constexpr int kPairs = 16;  // in a block's columns
constexpr int kGroups = kPairs / 2;

// How the weights of 32 columns are scaled and multiplied.
template <class DecoderType, bool kIsWinograd>
struct Form {
  using Decoder = DecoderType;
  static constexpr bool kHasMin = Decoder::kHasMin;
  // Parts of the columns that have a scale of their own.
  static constexpr int kHalves = Decoder::kHasHalfScales ? 2 : 1;
  // Groups of the first scale's columns that are multiplied together.
  static constexpr int kCross =
      kIsWinograd ? std::min(kCrossGroups, kGroups / kHalves) : 0;
};

// Columns of kGroupPanels panels.
struct Chunk {
  HWY_ALIGN int16_t pairs[kChunkBlocks][kPairs][kGroupPanels][2 * kPanelRows];
  HWY_ALIGN int32_t minus_cross[kChunkBlocks][kGroupPanels][kPanelRows];
  HWY_ALIGN float scales[kChunkBlocks][2][kGroupPanels][kPanelRows];
  HWY_ALIGN float mins[kChunkBlocks][2][kGroupPanels][kPanelRows];
};

static_assert(kVecs == 1, "a vector has all rows of a panel");

HWY_INLINE VI AddProducts(VI sum, VS a, VS b) {
  return VI{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};
}

// Decodes block s of a panel's slice into a chunk.
template <class Form>
HWY_INLINE void DecodeBlock(const PanelData& slice, int64_t s, size_t to_panel,
                            Chunk& chunk) {
  using Decoder = typename Form::Decoder;
  const auto at = ColumnsAt<Decoder>(slice, s);
  Scales scales;
  Decoder::LoadScales(at, scales);
  for (int half = 0; half < Form::kHalves; ++half) {
    StoreRows16(scales.d[half], chunk.scales[s][half][to_panel]);
    if constexpr (Decoder::kHasMin) {
      StoreRows16(scales.m[half], chunk.mins[s][half][to_panel]);
    }
  }
  Pairs pairs[kPairs];
  for (int i = 0; i < kPairs / 2; ++i) {
    Decoder::Decode(at, i, pairs[i], pairs[i + kPairs / 2]);
  }
  if constexpr (Form::kCross > 0) {
    VI cross = hn::Zero(DI());
    for (int g = 0; g < Form::kCross; ++g) {
      cross = AddProducts(cross, pairs[2 * g].v[0], pairs[2 * g + 1].v[0]);
    }
    hn::Store(hn::Neg(cross), DI(), chunk.minus_cross[s][to_panel]);
  }
  for (int i = 0; i < kPairs; ++i) {
    hn::Store(pairs[i].v[0], DS(), chunk.pairs[s][i][to_panel]);
  }
}

// A chunk that is decoded and multiplied.
struct ChunkTask {
  const PanelPair& slices;  // their first block is the chunk's first
  int64_t first;            // the chunk's first block in its panels
  int64_t n_blocks;
  NextChunk& next;
  Chunk& chunk;

  template <class Form>
  HWY_INLINE void Decode(int64_t s) const {
    for (size_t p = 0; p < kGroupPanels; ++p) {
      DecodeBlock<Form>(slices[p], s, p, chunk);
    }
  }
};

// A block of a group of kRows rows (row_groups.h).
template <int kRows>
struct RowBlock {
  static constexpr int64_t kBytes = kRows * kActivationBlockBytes;
  const uint8_t* at;

  const uint8_t* Values(int m) const { return at + m * kActivationBlock * 2; }
  const uint8_t* Scale(int m) const {
    return at + GroupScalesOffset(kRows) + m * 4;
  }
  const uint8_t* Sum(int m) const {
    return at + GroupSumsOffset(kRows) + m * 4;
  }
  const uint8_t* Cross(int m) const {
    return at + GroupCrossOffset(kRows) + m * 8;
  }
};

// Broadcasts four bytes to every lane.
HWY_INLINE VI Broadcast(const uint8_t* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof(value));
  return hn::Set(DI(), value);
}

// The columns of block s of a chunk that have one scale.
struct HalfBlock {
  const Chunk& chunk;
  int64_t s;
  int half;
};

// The totals of one row.
using Totals = float[kGroupPanels][kPanelRows];

// Sets the sums that a row has before the products of the columns.
template <class Form>
HWY_INLINE void BeginSums(const HalfBlock& columns, const uint8_t* cross,
                          VI (&sums)[kGroupPanels]) {
  HWY_UNROLL(2)
  for (int p = 0; p < kGroupPanels; ++p) {
    sums[p] =
        columns.half == 0 && Form::kCross > 0
            ? hn::Sub(hn::Load(DI(), columns.chunk.minus_cross[columns.s][p]),
                      Broadcast(cross))
            : hn::Zero(DI());
  }
}

// acc += the sums that a row has after the products of the columns, scaled.
HWY_INLINE void AddSums(const HalfBlock& columns, const uint8_t* row_scale,
                        const VI (&sums)[kGroupPanels],
                        VF (&acc)[kGroupPanels]) {
  const VF scale = hn::Set(DF(), LoadFloat(row_scale));
  HWY_UNROLL(2)
  for (int p = 0; p < kGroupPanels; ++p) {
    const auto& scales = columns.chunk.scales[columns.s][columns.half];
    const VF both = hn::Mul(hn::Load(DF(), scales[p]), scale);
    acc[p] = hn::MulAdd(hn::ConvertTo(DF(), sums[p]), both, acc[p]);
  }
}

// acc[m] += the minima of block s times the sums of row m's activations.
template <class Form, int kRows>
HWY_INLINE void AddMins(const Chunk& chunk, int64_t s, const RowBlock<kRows>& a,
                        VF (&acc)[kRows][kGroupPanels]) {
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(2)
    for (int half = 0; half < Form::kHalves; ++half) {
      const float of_half =
          Form::kHalves == 1
              ? LoadFloat(a.Sum(m))
              : HalfSum(a.Values(m) + 32 * half, LoadFloat(a.Scale(m)));
      const VF sum = hn::Set(DF(), of_half);
      HWY_UNROLL(2)
      for (int p = 0; p < kGroupPanels; ++p) {
        acc[m][p] =
            hn::MulAdd(hn::Load(DF(), chunk.mins[s][half][p]), sum, acc[m][p]);
      }
    }
  }
}

// The weights of a group of columns: two pairs of columns of each panel.
struct GroupWeights {
  VS first[kGroupPanels];
  VS second[kGroupPanels];

  HWY_INLINE GroupWeights(const Chunk& chunk, int64_t s, int g) {
    HWY_UNROLL(2)
    for (int p = 0; p < kGroupPanels; ++p) {
      first[p] = hn::Load(DS(), chunk.pairs[s][2 * g][p]);
    }
    HWY_UNROLL(2)
    for (int p = 0; p < kGroupPanels; ++p) {
      second[p] = hn::Load(DS(), chunk.pairs[s][2 * g + 1][p]);
    }
  }
};

// sums += the products of a group of columns with the four values at `at` of a
// row. With `is_cross`, pairs of columns are multiplied together; the sums have
// the cross products already.
HWY_INLINE void AddGroup(const GroupWeights& w, const uint8_t* at,
                         bool is_cross, VI (&sums)[kGroupPanels]) {
  const VS x = hn::BitCast(DS(), Broadcast(at));
  const VS y = hn::BitCast(DS(), Broadcast(at + 4));
  HWY_UNROLL(2)
  for (int p = 0; p < kGroupPanels; ++p) {
    sums[p] = is_cross ? AddProducts(sums[p], hn::Add(x, w.second[p]),
                                     hn::Add(y, w.first[p]))
                       : AddProducts(AddProducts(sums[p], x, w.first[p]), y,
                                     w.second[p]);
  }
}

// acc[m] += the products of the columns with row m of a group.
template <class Form, int kRows>
HWY_INLINE void AddHalf(const HalfBlock& columns, const RowBlock<kRows>& a,
                        VF (&acc)[kRows][kGroupPanels]) {
  constexpr int kGroupsOfHalf = kGroups / Form::kHalves;
  VI sums[kRows][kGroupPanels];
  HWY_UNROLL(8)
  for (int i = 0; i < kGroupsOfHalf; ++i) {
    // The two kinds of products take turns, so that all units have work at any
    // time. Measured beside other orders: up to 1.15 times as fast.
    constexpr int kOrder[kGroups] = {5, 0, 6, 1, 2, 7, 3, 4};
    const int g =
        Form::kHalves == 1 ? kOrder[i] : columns.half * kGroupsOfHalf + i;
    const GroupWeights weights(columns.chunk, columns.s, g);
    HWY_UNROLL(8)
    for (int m = 0; m < kRows; ++m) {
      // A row's sums begin and end beside other rows' products: more
      // instructions of one kind together would leave units without work.
      if (i == 0) {
        BeginSums<Form>(columns, a.Cross(m) + (Form::kHalves == 1 ? 4 : 0),
                        sums[m]);
      }
      AddGroup(weights, a.Values(m) + g * 8, g < Form::kCross, sums[m]);
      if (i == kGroupsOfHalf - 1 && m > 0) {
        AddSums(columns, a.Scale(m - 1), sums[m - 1], acc[m - 1]);
      }
    }
  }
  AddSums(columns, a.Scale(kRows - 1), sums[kRows - 1], acc[kRows - 1]);
}

// totals[m] += the chunk times row m of a group, whose first block of the chunk
// is at `group`; the first chunk of a panel sets them. With kDecodes, the chunk
// is decoded, each block beside the products of the block before: decoding
// keeps other units busy than products do.
template <class Form, int kRows, bool kDecodes>
void MultiplyChunk(const ChunkTask& task, const uint8_t* group,
                   Totals* totals) {
  const Chunk& chunk = task.chunk;
  const bool is_first = task.first == 0;
  if constexpr (kDecodes) task.template Decode<Form>(0);
  VF acc[kRows][kGroupPanels];
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(2)
    for (int p = 0; p < kGroupPanels; ++p) {
      acc[m][p] = is_first ? hn::Zero(DF()) : hn::Load(DF(), totals[m][p]);
    }
  }
  for (int64_t s = 0; s < task.n_blocks; ++s) {
    task.next.Step();
    if (kDecodes && s + 1 < task.n_blocks) task.template Decode<Form>(s + 1);
    const RowBlock<kRows> a = {group + s * RowBlock<kRows>::kBytes};
    HWY_UNROLL(2)
    for (int half = 0; half < Form::kHalves; ++half) {
      AddHalf<Form>({chunk, s, half}, a, acc);
    }
    if constexpr (Form::kHasMin) AddMins<Form>(chunk, s, a, acc);
  }
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(2)
    for (int p = 0; p < kGroupPanels; ++p) {
      hn::Store(acc[m][p], DF(), totals[m][p]);
    }
  }
}

// The activations that are multiplied at a time.
struct Tile {
  RowGroups groups;  // groups of all rows
  int64_t first_group;
  int64_t n_groups;

  int64_t FirstRow() const { return groups.RowAt(first_group); }
  int64_t EndRow() const { return groups.RowAt(first_group + n_groups); }
};

// totals[m] += the chunk times row m of a group of `n` rows.
template <class Form, bool kDecodes>
void MultiplyGroup(const ChunkTask& task, int64_t n, const uint8_t* group,
                   Totals* totals) {
  switch (n) {
    case 6:
      return MultiplyChunk<Form, 6, kDecodes>(task, group, totals);
    case 5:
      return MultiplyChunk<Form, 5, kDecodes>(task, group, totals);
    default:  // 4: grouped rows never make smaller groups
      return MultiplyChunk<Form, 4, kDecodes>(task, group, totals);
  }
}

// totals[m] += the chunk times row m of a tile. The first group decodes it.
template <class Form>
void MultiplyRows(const MatMulArgs& args, const Tile& tile,
                  const ChunkTask& task, Totals* totals) {
  for (int64_t i = 0; i < tile.n_groups; ++i) {
    const int64_t group = tile.first_group + i;
    const int64_t n = tile.groups.RowsOf(group);
    const auto* at = reinterpret_cast<const uint8_t*>(args.packed) +
                     tile.groups.RowAt(group) * PackedRowBytes(args.w.cols) +
                     task.first * n * kActivationBlockBytes;
    if (i == 0) {
      MultiplyGroup<Form, true>(task, n, at, totals);
    } else {
      MultiplyGroup<Form, false>(task, n, at, totals);
    }
    totals += n;
  }
}

// Columns [32 begin, 32 end) of two panels. The second panel may be the first
// again.
struct Slab {
  PanelPair panels;
  int64_t begin;
  int64_t end;
};

// totals[m] += a slab times row m of a tile. The slab `next` comes after it.
template <class Form>
void MultiplySlab(const MatMulArgs& args, const Tile& tile, const Slab& slab,
                  const Slab& next, Totals* totals) {
  Chunk chunk;
  for (int64_t s = slab.begin; s < slab.end; s += kChunkBlocks) {
    const int64_t n_blocks = std::min(kChunkBlocks, slab.end - s);
    const int64_t n_steps = tile.n_groups * n_blocks;
    NextChunk next_chunk =
        s + n_blocks < slab.end
            ? NextChunk(slab.panels, s + n_blocks, kChunkBlocks, n_steps)
            : NextChunk(next.panels, next.begin, kChunkBlocks, n_steps);
    SliceBuffer buffers[kGroupPanels];
    const PanelPair slices = {SliceOf(slab.panels[0], s, buffers[0]),
                              SliceOf(slab.panels[1], s, buffers[1])};
    MultiplyRows<Form>(args, tile, {slices, s, n_blocks, next_chunk, chunk},
                       totals);
  }
}

// A tile keeps the totals of this many pairs of panels, each for all its rows.
using TileTotals =
    Totals[kRangePanels / kGroupPanels][kTileGroups * kGroupRows];

// totals[i][m] = pair i of `pairs` times row m of a tile. The outputs of a pair
// are prepared before its last columns are multiplied.
template <class Form, class PanelPairs>
HWY_INLINE void MultiplyPairs(const MatMulArgs& args, const Tile& tile,
                              const PanelPairs& pairs, TileTotals& totals) {
  const int64_t n_pairs = pairs.n();
  const int64_t n_blocks = args.w.cols / 32;
  const int64_t slab_blocks = SlabBlocks(tile.n_groups);
  // Slabs are counted column by column, and the pairs of each column in order.
  // The one behind the last belongs to the pair that another task begins with.
  const int64_t n_slabs = CeilDiv(n_blocks, slab_blocks) * n_pairs;
  const auto slab_of = [&](int64_t i) {
    const bool is_behind = i == n_slabs;
    const int64_t begin = is_behind ? 0 : i / n_pairs * slab_blocks;
    return Slab{pairs.At(is_behind ? n_pairs : i % n_pairs), begin,
                std::min(begin + slab_blocks, n_blocks)};
  };
  Slab slab = slab_of(0);
  for (int64_t i = 0; i < n_slabs; ++i) {
    if (slab.end == n_blocks) pairs.PrepareOutputs(i % n_pairs);
    const Slab next = slab_of(i + 1);
    MultiplySlab<Form>(args, tile, slab, next, totals[i % n_pairs]);
    slab = next;
  }
}

// Computes outputs of panels [begin, end), at most kRangePanels, for a tile's
// rows.
template <class Form>
void MultiplyTile(const MatMulArgs& args, const Tile& tile, int64_t begin,
                  int64_t end) {
  HWY_ALIGN TileTotals totals;
  const int64_t first_row = tile.FirstRow();
  const int64_t end_row = tile.EndRow();
  const OutputPairs pairs = {.args = args,
                             .first_row = first_row,
                             .end_row = end_row,
                             .begin = begin,
                             .end = end};
  MultiplyPairs<Form>(args, tile, pairs, totals);
  for (int64_t m = first_row; m < end_row; ++m) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t i = p - begin;
      StoreOut(
          LoadRows(totals[i / kGroupPanels][m - first_row][i % kGroupPanels]),
          args.w.HostScale(),
          std::min(kPanelRows, args.w.rows - p * kPanelRows), args.accumulate,
          args.out + m * args.w.rows + p * kPanelRows);
    }
  }
}

// Computes, gates and packs the outputs of panels [begin, end), which are pairs
// and at most kGatedPanels, for a tile's rows.
template <class Form>
void MultiplyGatedTile(const GatedMatMulArgs& args, std::byte* packed,
                       const Tile& tile, int64_t begin, int64_t end) {
  HWY_ALIGN TileTotals totals;
  MultiplyPairs<Form>(args.gate, tile, GatedPairs{args, begin, end}, totals);
  const VF gate_scale = hn::Set(DF(), args.gate.w.HostScale());
  const VF up_scale = hn::Set(DF(), args.up.w.HostScale());
  const PackActivationsArgs to = {nullptr, args.gate.n_rows, args.gate.w.rows,
                                  packed};
  const int64_t first_row = tile.FirstRow();
  for (int64_t m = first_row; m < tile.EndRow(); ++m) {
    HWY_ALIGN float values[kGatedPanels * kPanelRows];
    for (int64_t i = 0; i < end - begin; ++i) {
      const int64_t pair = i / kGroupPanels * 2;
      const int64_t p = i % kGroupPanels;
      const VF gate =
          hn::Mul(gate_scale, hn::Load(DF(), totals[pair][m - first_row][p]));
      const VF up =
          hn::Mul(up_scale, hn::Load(DF(), totals[pair + 1][m - first_row][p]));
      hn::Store(Gated(DF(), gate, up, args.activation), DF(),
                values + i * kPanelRows);
    }
    PackBlocksOfRow(to, &tile.groups,
                    {.row = m,
                     .begin = begin / kPanelsPerBlock,
                     .end = end / kPanelsPerBlock,
                     .x = values});
  }
}

// Calls `multiply(tile, first, last)` for panels [begin, end), `n_panels` at a
// time, and all tiles of `n_rows` rows.
template <class Multiply>
void ForEachTile(int64_t n_rows, int64_t begin, int64_t end, int64_t n_panels,
                 Multiply multiply) {
  const RowGroups groups(n_rows);
  const int64_t n_tiles = CeilDiv(groups.n(), kTileGroups);
  for (int64_t t = 0; t < n_tiles; ++t) {
    const int64_t first = groups.n() * t / n_tiles;
    const Tile tile = {groups, first, groups.n() * (t + 1) / n_tiles - first};
    for (int64_t p = begin; p < end; p += n_panels) {
      multiply(tile, p, std::min(p + n_panels, end));
    }
  }
}

// Calls `call` with the Form for the weights.
template <class Call>
void WithForm(const WeightMatrix& w, Call call) {
  WithDecoder(w, [&](auto decoder) {
    using Decoder = decltype(decoder);
    if (Uses(PathExtra::kWinograd)) {
      call(Form<Decoder, true>());
    } else {
      call(Form<Decoder, false>());
    }
  });
}

}  // namespace

void MatMulManyHere(const MatMulArgs& args, int64_t begin, int64_t end) {
  WithForm(args.w, [&](auto form) {
    ForEachTile(args.n_rows, begin, end, kRangePanels,
                [&](const Tile& tile, int64_t first, int64_t last) {
                  MultiplyTile<decltype(form)>(args, tile, first, last);
                });
  });
}

void GatedMatMulManyHere(const GatedMatMulArgs& args, std::byte* packed,
                         int64_t begin, int64_t end) {
  WithForm(args.gate.w, [&](auto form) {
    ForEachTile(args.gate.n_rows, begin, end, kGatedPanels,
                [&](const Tile& tile, int64_t first, int64_t last) {
                  MultiplyGatedTile<decltype(form)>(args, packed, tile, first,
                                                    last);
                });
  });
}
#else
void MatMulManyHere(const MatMulArgs& /*args*/, int64_t /*begin*/,
                    int64_t /*end*/) {
  PLIMSOLL_CHECK(false, "only paths of AVX3_DL have it");
}
void GatedMatMulManyHere(const GatedMatMulArgs& /*args*/, std::byte* /*packed*/,
                         int64_t /*begin*/, int64_t /*end*/) {
  PLIMSOLL_CHECK(false, "only paths of AVX3_DL have it");
}
#endif

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(MatMulManyHere);
HWY_EXPORT(GatedMatMulManyHere);

void MatMulMany(const MatMulArgs& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(MatMulManyHere)(args, begin, end);
}

void GatedMatMulMany(const GatedMatMulArgs& args, std::byte* packed,
                     int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(GatedMatMulManyHere)(args, packed, begin, end);
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
