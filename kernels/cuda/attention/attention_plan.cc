// A tile ends where a row's spans become longer than those of the row before.
#include "kernels/cuda/attention/attention_plan.h"

#include <algorithm>
#include <bit>
#include <span>

namespace plimsoll::kernels {
namespace {

int64_t SpanUnits(int64_t n_units) {
  const auto least = static_cast<uint64_t>((n_units + kMaxAttentionSpans - 1) /
                                           kMaxAttentionSpans);
  return static_cast<int64_t>(std::bit_ceil(std::max(least, uint64_t{1})));
}

// The number of the table's pages that the row at `position` sees. It is known
// to see the first `begin`.
int64_t VisiblePages(const AttentionSegment& segment, int64_t position,
                     int64_t begin) {
  const auto n = static_cast<int64_t>(segment.pages.size());
  while (begin < n &&
         segment.pages[static_cast<size_t>(begin)].first_position <= position) {
    ++begin;
  }
  return begin;
}

// How a kernel cuts what a row sees.
struct Cutting {
  int64_t unit_keys;
  int64_t step_keys;
  int64_t decode_spans;  // for DecodeSpanUnits; 0: spans are those of SpanUnits

  int64_t UnitsOfSpan(int64_t n_units) const {
    return decode_spans > 0 ? DecodeSpanUnits(n_units, decode_spans)
                            : SpanUnits(n_units);
  }
  // A window of whole units may touch one more. Spans of a decoding row are
  // then not longer for that.
  int64_t UnitsOfWindow(int64_t window) const {
    return decode_spans > 0 ? (window + unit_keys - 1) / unit_keys
                            : window / unit_keys + 1;
  }
};

AttentionTile PagedTile(const AttentionArgs& args, int64_t visible,
                        const Cutting& cutting) {
  const int64_t unit_pages =
      UnitPages(args.paged.page_tokens, cutting.step_keys, cutting.unit_keys);
  AttentionTile tile = {};
  tile.end_unit = std::max<int64_t>((visible + unit_pages - 1) / unit_pages, 1);
  tile.span_units = cutting.UnitsOfSpan(tile.end_unit);
  return tile;
}

AttentionTile RingTile(const AttentionSegment& segment, int64_t position,
                       const Cutting& cutting) {
  const int64_t window = segment.ring.window;
  const int64_t first =
      std::max({segment.live_begin, position - window + 1, int64_t{0}});
  AttentionTile tile = {};
  tile.first_unit = std::min(first, position) / cutting.unit_keys;
  tile.end_unit = position / cutting.unit_keys + 1;
  tile.span_units = cutting.UnitsOfSpan(cutting.UnitsOfWindow(window));
  tile.ring_k = segment.ring.k;
  tile.ring_v = segment.ring.v;
  tile.window = window;
  tile.live_begin = segment.live_begin;
  tile.chunk_position = segment.first_position;
  tile.chunk_row = segment.first_row;
  return tile;
}

void AppendCut(const AttentionArgs& args, const SegmentCut& cut,
               const Cutting& cutting, std::vector<AttentionTile>& tiles) {
  const AttentionSegment& segment = cut.segment;
  int64_t visible = 0;
  int64_t open_rows = 0;  // rows that the last tile may still get
  for (int64_t r = 0; r < segment.n_rows; ++r) {
    const int64_t position = segment.first_position + r;
    visible = VisiblePages(segment, position, visible);
    AttentionTile row = args.is_ring ? RingTile(segment, position, cutting)
                                     : PagedTile(args, visible, cutting);
    if (open_rows > 0 && open_rows < cut.tile_rows &&
        tiles.back().span_units == row.span_units) {
      tiles.back().end_unit = std::max(tiles.back().end_unit, row.end_unit);
      tiles.back().n_rows = ++open_rows;
      continue;
    }
    row.first_row = segment.first_row + r;
    row.first_position = position;
    row.n_rows = open_rows = 1;
    row.pages = cut.pages;
    row.n_pages = static_cast<int64_t>(segment.pages.size());
    tiles.push_back(row);
  }
}

}  // namespace

void AppendTiles(const AttentionArgs& args, const SegmentCut& cut,
                 std::vector<AttentionTile>& tiles) {
  AppendCut(args, cut, {kUnitKeys, StepKeys(QueriesOf(args.head_dim)), 0},
            tiles);
}

void AppendDecodeTiles(const AttentionArgs& args, const SegmentCut& cut,
                       int64_t spans, std::vector<AttentionTile>& tiles) {
  const size_t n_before = tiles.size();
  AppendCut(args, cut, {kDecodeUnitKeys, kDecodeKeys, spans}, tiles);
  for (AttentionTile& tile : std::span(tiles).subspan(n_before)) {
    tile.first_span = tile.FirstSpan();
    tile.n_spans = tile.Spans();
  }
}

void AppendPromptTiles(const AttentionArgs& args, const SegmentCut& cut,
                       std::vector<AttentionTile>& tiles) {
  const AttentionSegment& segment = cut.segment;
  int64_t visible = 0;
  for (int64_t r = 0; r < segment.n_rows; r += cut.tile_rows) {
    const int64_t n = std::min(cut.tile_rows, segment.n_rows - r);
    const int64_t first = segment.first_position + r;
    const int64_t last = first + n - 1;
    AttentionTile tile = {};
    if (args.is_ring) {
      tile = RingTile(segment, first, {kUnitKeys, kPromptKeys, 0});
      tile.end_unit = last / kUnitKeys + 1;
    } else {
      const int64_t unit_pages = UnitPages(args.paged.page_tokens, kPromptKeys);
      visible = VisiblePages(segment, last, visible);
      tile.end_unit = (visible + unit_pages - 1) / unit_pages;
    }
    tile.first_row = segment.first_row + r;
    tile.first_position = first;
    tile.n_rows = n;
    tile.pages = cut.pages;
    tile.n_pages = static_cast<int64_t>(segment.pages.size());
    tiles.push_back(tile);
  }
}

}  // namespace plimsoll::kernels
