// The CUDA backend's index arithmetic: where weights lie, and how attention is
// cut. Needs no device.
#include <algorithm>
#include <map>
#include <set>

#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/mat_mul/few_split.h"
#include "kernels/cuda/mat_mul/wgmma_layout.h"
#include "kernels/cuda/weight_layout.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

TEST(WeightLayoutTest, ATiledMatrixTakesTheFilesBytes) {
  for (const DType dtype : WeightTypes()) {
    if (!IsTiled(dtype)) continue;
    for (const int64_t rows : {1, 16, 17, 100}) {
      const int64_t cols = 3 * 256;
      const TiledMatrix at = LayOut(dtype, rows, cols);
      const int64_t padded = (rows + kTileRows - 1) / kTileRows * kTileRows;
      EXPECT_EQ(at.bytes, padded * *RowBytes(dtype, cols)) << DTypeName(dtype);
      for (const int64_t plane : {at.highs, at.subscales, at.scales}) {
        EXPECT_EQ(plane % 16, 0) << DTypeName(dtype);
      }
    }
  }
}

// Every quad's columns are somebody's, and a block's memory is enough.
TEST(FewSplitTest, SlicesAndBlocksCoverEverything) {
  for (const DType dtype : WeightTypes()) {
    if (!IsTiled(dtype)) continue;
    for (const int64_t rows : {32, 64}) {
      for (const int64_t n_quads : {1, 3, 60, 480}) {
        for (const int64_t cols : {256, 1'280, 3'840, 15'360}) {
          for (const int64_t n_multiprocessors : {1, 84, 132}) {
            for (const int64_t wanted : {0, 1, 5}) {
              const FewSplit split =
                  SplitFew({.type = dtype,
                            .rows = rows,
                            .n_quads = n_quads,
                            .col_tiles = cols / kTileCols,
                            .n_multiprocessors = n_multiprocessors},
                           {.wanted = wanted});
              ASSERT_GT(split.n_slices, 0) << DTypeName(dtype) << ' ' << cols;
              EXPECT_EQ(split.units.First(split.n_slices) * UnitTiles(dtype) *
                            kTileCols,
                        cols);
              int64_t most_units = 0;
              for (int slice = 0; slice < split.n_slices; ++slice) {
                const int64_t n =
                    split.units.First(slice + 1) - split.units.First(slice);
                EXPECT_GT(n, 0);
                most_units = std::max(most_units, n);
              }
              EXPECT_EQ(most_units, split.units.Most());
              EXPECT_EQ(split.quads.First(split.n_blocks), n_quads);
              for (int block = 0; block < split.n_blocks; ++block) {
                EXPECT_LT(split.quads.First(block),
                          split.quads.First(block + 1));
              }
              EXPECT_GE(split.n_slots, 2);
              EXPECT_LE(most_units * UnitTiles(dtype) / 2 *
                                (FewStageBytes(rows) + FewScaleBytes(rows)) +
                            kFewFixedBytes +
                            kFewWarps * split.n_slots * RingSlotBytes(dtype),
                        kFewSharedBytes);
            }
          }
        }
      }
    }
  }
}

// A block has little more than its share, and all blocks run at once. Short
// rows are not cut.
TEST(FewSplitTest, ChoosesSlicesThatFillTheDevice) {
  // Gate and up, down, and attention's output of a 12B model on 132
  // multiprocessors.
  for (const auto& [outputs, cols] :
       {std::pair{30'720, 3'840}, {3'840, 15'360}, {3'840, 4'096}}) {
    const int64_t n_quads = outputs / 64;
    const FewSplit split = SplitFew({.type = DType::kQ4_0,
                                     .rows = 32,
                                     .n_quads = n_quads,
                                     .col_tiles = cols / kTileCols,
                                     .n_multiprocessors = 132},
                                    {});
    EXPECT_LE(split.n_slices * split.n_blocks, 132);
    const int64_t stages = split.units.Most();
    const int64_t quads = split.quads.Most();
    EXPECT_LT(static_cast<double>(quads * stages * 132),
              1.2 * static_cast<double>(n_quads * (cols / kTileCols / 2)));
  }
  EXPECT_EQ(SplitFew({.type = DType::kQ4_0,
                      .rows = 32,
                      .n_quads = 60,
                      .col_tiles = 16,
                      .n_multiprocessors = 132},
                     {})
                .n_slices,
            1);
}

// What kernels store is where the descriptor lets a product read it.
TEST(WgmmaLayoutTest, DescriptorsFindWhatIsStored) {
  constexpr uint32_t kAddress = 3 * 16'384;
  std::set<uint32_t> bytes;
  for (int row = 0; row < 128; ++row) {
    for (int column = 0; column < kSwizzleColumns; ++column) {
      const uint64_t descriptor =
          WgmmaDescriptor(kAddress, column / kWgmmaColumns);
      const uint32_t byte = WgmmaByte(descriptor, row, column % kWgmmaColumns);
      EXPECT_EQ(byte,
                kAddress + static_cast<uint32_t>(SwizzledByte(row, column / 8) +
                                                 column % 8 * 2));
      bytes.insert(byte);
    }
  }
  // Every element has bytes of its own, and there are no gaps.
  EXPECT_EQ(bytes.size(), 128u * kSwizzleColumns);
  EXPECT_EQ(*bytes.rbegin(), kAddress + 128 * kSwizzleRowBytes - 2);
}

// The manual's fields: the address and the strides in units of 16 bytes, and
// the swizzle of 128 bytes.
TEST(WgmmaLayoutTest, DescriptorsHaveTheManualsFields) {
  const uint64_t descriptor = WgmmaDescriptor(0x4000, 1);
  EXPECT_EQ(descriptor & 0x3FFF, (0x4000 + 32) >> 4);
  EXPECT_EQ(descriptor >> 32 & 0x3FFF, 1024 >> 4);
  EXPECT_EQ(descriptor >> 62, 1u);
}

TEST(WeightLayoutTest, OnlyQuantisedTypesAreTiled) {
  for (const DType dtype : WeightTypes()) {
    EXPECT_EQ(IsTiled(dtype), InfoOf(dtype).block_elems > 1);
  }
}

// Each element of a tile has bits of its own, and all bits are used.
TEST(WeightLayoutTest, ElementsOfATileShareNoBit) {
  std::set<int> bytes;
  std::set<std::pair<int, int>> nibbles;
  std::set<std::pair<int, int>> highs;
  std::set<int> lanes;
  for (int row = 0; row < kTileRows; ++row) {
    for (int col = 0; col < kTileCols; ++col) {
      bytes.insert(QuantByte(row, col));
      nibbles.emplace(NibbleByte(row, col), NibbleShift(col));
      highs.emplace(HighByte(row, col), HighShift(row, col));
      lanes.insert(LaneOf(row, col));
      EXPECT_EQ(QuantByte(row, col) / 16, LaneOf(row, col));
      EXPECT_EQ(NibbleByte(row, col) / 8, LaneOf(row, col));
      EXPECT_EQ(HighByte(row, col) / 4, LaneOf(row, col));
    }
  }
  EXPECT_EQ(bytes.size(), 512u);
  EXPECT_EQ(*bytes.rbegin(), 511);
  EXPECT_EQ(nibbles.size(), 512u);
  EXPECT_EQ(nibbles.rbegin()->first, 255);
  EXPECT_EQ(highs.size(), 512u);
  EXPECT_EQ(highs.rbegin()->first, 127);
  EXPECT_EQ(lanes.size(), 32u);
}

TEST(WeightLayoutTest, RowsHaveSlotsAndPairsLieSideBySide) {
  for (int row = 0; row < kTileRows; ++row) {
    EXPECT_EQ(SlotRow(RowSlot(row)), row);
  }
  for (int row = 0; row < 8; ++row) {
    EXPECT_EQ(RowSlot(row + 8), RowSlot(row) + 1);
  }
}

// A segment with pages or a ring, and its tiles.
struct Cut {
  std::vector<PageEntry> table;
  AttentionArgs args = {};
  AttentionSegment segment = {};
  std::vector<AttentionTile> tiles;
};

Cut CutSegment(bool is_ring, int64_t first, int64_t n_rows, int64_t window,
               int64_t page_tokens, int64_t tile_rows) {
  Cut cut;
  cut.args.is_ring = is_ring;
  cut.args.head_dim = 64;
  cut.args.paged.page_tokens = page_tokens;
  cut.segment.first_row = 7;
  cut.segment.n_rows = n_rows;
  cut.segment.first_position = first;
  cut.segment.ring.window = window;
  for (int64_t p = 0; p < first + n_rows; p += page_tokens) {
    cut.table.push_back({p, 0, 0, static_cast<int32_t>(page_tokens), false});
  }
  if (!is_ring) cut.segment.pages = cut.table;
  AppendTiles(cut.args,
              {.segment = cut.segment,
               .pages = cut.table.data(),
               .tile_rows = tile_rows},
              cut.tiles);
  return cut;
}

TEST(AttentionPlanTest, TilesHoldEveryRowOnceInOrder) {
  RandomData random(70);
  for (int round = 0; round < 200; ++round) {
    const int64_t n_rows = random.Integer(1, 60);
    const int64_t tile_rows = random.Integer(1, 4);
    const int64_t first = random.Integer(0, 40'000);
    const Cut cut = CutSegment(round % 2 == 0, first, n_rows,
                               random.Integer(1, 3'000), 64, tile_rows);
    int64_t next = 0;
    for (const AttentionTile& tile : cut.tiles) {
      ASSERT_EQ(tile.first_row, 7 + next);
      ASSERT_EQ(tile.first_position, first + next);
      ASSERT_GE(tile.n_rows, 1);
      ASSERT_LE(tile.n_rows, tile_rows);
      ASSERT_GE(tile.Spans(), 1);
      ASSERT_LE(tile.Spans(), 2 * kMaxAttentionSpans);
      next += tile.n_rows;
    }
    ASSERT_EQ(next, n_rows);
  }
}

// What a row's reduction looks like may not depend on the rows it comes with.
TEST(AttentionPlanTest, ARowsSpansDoNotDependOnItsTile) {
  for (const bool is_ring : {false, true}) {
    for (const int64_t page_tokens : {16, 64}) {
      // Around the position where spans become two units long.
      const int64_t first = kMaxAttentionSpans * kUnitKeys - 30;
      const Cut together = CutSegment(is_ring, first, 60, 700, page_tokens, 4);
      for (const AttentionTile& tile : together.tiles) {
        for (int64_t r = 0; r < tile.n_rows; ++r) {
          const Cut alone = CutSegment(is_ring, tile.first_position + r, 1, 700,
                                       page_tokens, 4);
          ASSERT_EQ(alone.tiles.size(), 1u);
          const AttentionTile& row = alone.tiles[0];
          EXPECT_EQ(row.span_units, tile.span_units);
          EXPECT_GE(row.first_unit, tile.first_unit);
          EXPECT_LE(row.end_unit, tile.end_unit);
        }
      }
    }
  }
}

TEST(AttentionPlanTest, PromptTilesHoldEveryRowAndAllThatItSees) {
  RandomData random(71);
  for (int round = 0; round < 200; ++round) {
    const int64_t n_rows = random.Integer(1, 60);
    const int64_t tile_rows = random.Integer(1, kPromptQueries);
    const int64_t first = random.Integer(0, 4'000);
    const int64_t window = random.Integer(1, 3'000);
    Cut cut = CutSegment(round % 2 == 0, first, n_rows, window,
                         random.Integer(1, 4) * 16, 1);
    cut.tiles.clear();
    AppendPromptTiles(cut.args,
                      {.segment = cut.segment,
                       .pages = cut.table.data(),
                       .tile_rows = tile_rows},
                      cut.tiles);
    int64_t next = 0;
    for (const AttentionTile& tile : cut.tiles) {
      ASSERT_EQ(tile.first_row, 7 + next);
      ASSERT_EQ(tile.first_position, first + next);
      ASSERT_EQ(tile.n_rows, std::min(tile_rows, n_rows - next));
      next += tile.n_rows;
      const int64_t last = first + next - 1;
      const int64_t unit_keys =
          cut.args.is_ring ? kUnitKeys
                           : kPromptUnitSteps * cut.args.paged.page_tokens;
      const int64_t begin =
          cut.args.is_ring
              ? std::max<int64_t>(tile.first_position - window + 1, 0)
              : 0;
      ASSERT_EQ(tile.first_unit, begin / unit_keys);
      ASSERT_EQ(tile.end_unit, last / unit_keys + 1);
    }
    ASSERT_EQ(next, n_rows);
  }
}

TEST(AttentionPlanTest, UnitsHoldWholePagesOfWholeSteps) {
  for (const int64_t head_dim : {16, 128, 512}) {
    const int64_t step = StepKeys(QueriesOf(head_dim));
    for (int64_t tokens = 1; tokens <= kAttentionBlock; ++tokens) {
      const int64_t slots = PageSlots(tokens, step);
      EXPECT_GE(slots, tokens);
      EXPECT_EQ(slots % step, 0);
      EXPECT_GE(UnitPages(tokens, step), 1);
      EXPECT_LE(UnitPages(tokens, step) * slots, kUnitKeys);
    }
  }
}

TEST(AttentionPlanTest, SpansOfADecodingRowDependOnItAlone) {
  constexpr int64_t kSpans = 16;
  RandomData random(72);
  for (int round = 0; round < 200; ++round) {
    const bool is_ring = round % 2 == 0;
    const int64_t first = random.Integer(0, 40'000);
    const int64_t window = random.Integer(1, 3'000);
    Cut cut = CutSegment(is_ring, first, 30, window, 64, 1);
    cut.tiles.clear();
    AppendDecodeTiles(
        cut.args,
        {.segment = cut.segment, .pages = cut.table.data(), .tile_rows = 4},
        kSpans, cut.tiles);
    int64_t next = 0;
    for (const AttentionTile& tile : cut.tiles) {
      ASSERT_EQ(tile.first_position, first + next);
      ASSERT_LE(tile.Spans(), kMaxDecodeSpans + 1);
      next += tile.n_rows;
      // Its last row alone.
      Cut alone = CutSegment(is_ring, first + next - 1, 1, window, 64, 1);
      alone.tiles.clear();
      AppendDecodeTiles(alone.args,
                        {.segment = alone.segment,
                         .pages = alone.table.data(),
                         .tile_rows = 4},
                        kSpans, alone.tiles);
      ASSERT_EQ(alone.tiles[0].span_units, tile.span_units);
      ASSERT_EQ(alone.tiles[0].end_unit, tile.end_unit);
    }
    ASSERT_EQ(next, 30);
  }
}

TEST(AttentionPlanTest, DecodingRowsHaveMoreAndLongerSpansAsTheyGrow) {
  EXPECT_EQ(DecodeSpanUnits(16, 16), 1);  // 1,024 keys: 16 spans
  EXPECT_EQ(DecodeSpanUnits(17, 16), 2);
  EXPECT_EQ(DecodeSpanUnits(64, 16), 2);  // 4,096 keys: 32 spans
  EXPECT_EQ(DecodeSpanUnits(2048, 16), 12);
  EXPECT_EQ(DecodeSpanUnits(int64_t{1} << 20, 1 << 20), 4096);
}

TEST(AttentionPlanTest, LongContextsHaveLongerSpansNotMore) {
  for (const int64_t n : {1'000, 16'384, 131'072, 1'048'576}) {
    const Cut cut = CutSegment(false, n - 1, 1, 0, 64, 1);
    EXPECT_LE(cut.tiles[0].Spans(), kMaxAttentionSpans) << n;
    if (n < 16'384) continue;
    EXPECT_GT(cut.tiles[0].Spans(), kMaxAttentionSpans / 2) << n;
  }
}

}  // namespace
}  // namespace plimsoll::kernels
