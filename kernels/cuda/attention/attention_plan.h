// Cuts a step's attention into tasks for warps. This is pure arithmetic, shared
// by the host, which lists tiles, and by the kernels.
//
// A row's keys are reduced in units of up to kUnitKeys, units in spans, and
// spans in order. The beginnings of units and spans depend only on the row's
// position and on the keys that it sees, so chunks and other rows change no bit
// of the result.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels {

// The keys of a unit have one softmax. It is exact for them, and is then merged
// with the softmax of the units before.
inline constexpr int64_t kUnitKeys = 128;
// A row has at most this many spans, or up to twice as many if a ring is cut.
inline constexpr int64_t kMaxAttentionSpans = 128;

// A warp takes up to this many queries: heads of one or more rows that all read
// one KV head. With wide heads it takes half as many, because their sums fill
// registers.
inline constexpr int64_t kTaskQueries = 4;
inline constexpr int64_t kNarrowHeadDim = 256;
constexpr int64_t QueriesOf(int64_t head_dim) {
  return head_dim <= kNarrowHeadDim ? kTaskQueries : kTaskQueries / 2;
}
// Keys of one step of a warp: one score for each lane.
constexpr int64_t StepKeys(int64_t n_queries) { return 32 / n_queries; }

// For a paged layer: a page takes whole steps of a unit, and a unit has whole
// pages.
constexpr int64_t PageSlots(int64_t page_tokens, int64_t step_keys) {
  return (page_tokens + step_keys - 1) / step_keys * step_keys;
}
constexpr int64_t UnitPages(int64_t page_tokens, int64_t step_keys,
                            int64_t unit_keys = kUnitKeys) {
  const int64_t slots = PageSlots(page_tokens, step_keys);
  return slots < unit_keys ? unit_keys / slots : 1;
}

// Consecutive rows of one segment that have the same spans. A task takes its
// queries from a tile.
struct AttentionTile {
  int64_t first_row;  // in the step's buffers
  int64_t n_rows;
  int64_t first_position;
  // Units [first_unit, end_unit) hold all keys that the rows see. Units of
  // pages count pages in the table, units of a ring count positions. Spans
  // begin at multiples of span_units.
  int64_t first_unit;
  int64_t end_unit;
  int64_t span_units;
  // The segment's page table; for paged layers.
  const PageEntry* pages;
  int64_t n_pages;
  // The fields from here on are for ring layers.
  const std::byte* ring_k;
  const std::byte* ring_v;
  int64_t window;
  int64_t live_begin;
  int64_t chunk_position;  // position of chunk row 0 of the segment
  int64_t chunk_row;       // row of that position in chunk_k and chunk_v
  // FirstSpan() and Spans(), so that a kernel need not divide. Only
  // AppendDecodeTiles sets them.
  int64_t first_span;
  int64_t n_spans;

  constexpr int64_t FirstSpan() const { return first_unit / span_units; }
  constexpr int64_t Spans() const {
    return (end_unit - 1) / span_units - FirstSpan() + 1;
  }
};

// A segment whose rows are cut into tiles.
struct SegmentCut {
  const AttentionSegment& segment;
  const PageEntry* pages;  // the segment's page table, in device memory
  int64_t tile_rows = 0;   // the most rows of a tile
};

// Appends the tiles of a segment's rows.
void AppendTiles(const AttentionArgs& args, const SegmentCut& cut,
                 std::vector<AttentionTile>& tiles);

// Generated tokens on the tensor cores: a warp takes 16 keys at a time, and the
// four warps of a block share the steps of a span. A unit is short, so that a
// row of few keys still has many spans.
inline constexpr int64_t kDecodeKeys = 16;
inline constexpr int64_t kDecodeUnitKeys = 64;

// A row has at most this many spans, or one more if a ring is cut.
inline constexpr int64_t kMaxDecodeSpans = 256;
// A tile has at most this many spans: its few rows together may have more spans
// than one row.
inline constexpr int64_t kMaxTileSpans = kMaxDecodeSpans + 8;

// The units of a span for a row that sees `n_units`: the least n with n_units
// <= n * n * spans, if this makes at most kMaxDecodeSpans spans. So both the
// number of spans and their length grow with a context.
constexpr int64_t DecodeSpanUnits(int64_t n_units, int64_t spans) {
  int64_t n = 1;
  while (n * n * spans < n_units) ++n;
  const int64_t least = (n_units + kMaxDecodeSpans - 1) / kMaxDecodeSpans;
  return n > least ? n : least;
}

// The queries of a task are columns of a product. If a group has few heads,
// they are only half of the columns, because the low halves of weights take the
// other half.
constexpr int64_t DecodeQueries(int64_t group) { return group <= 4 ? 4 : 8; }

// Like AppendTiles, for tasks of generated tokens.
void AppendDecodeTiles(const AttentionArgs& args, const SegmentCut& cut,
                       int64_t spans, std::vector<AttentionTile>& tiles);

// Prompts on the tensor cores: 16 queries meet tiles of 64 keys, which are a
// page or aligned positions of a ring. Units have kUnitKeys keys here too: two
// tiles.
inline constexpr int64_t kPromptQueries = 16;
inline constexpr int64_t kPromptKeys = 64;
inline constexpr int64_t kPromptUnitSteps = kUnitKeys / kPromptKeys;

// True for the types of keys and values that tensor cores take.
constexpr bool HasPromptType(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kQ8_0;
}

// Appends the tiles of a segment's rows for attention on tensor cores. Spans
// are not used.
void AppendPromptTiles(const AttentionArgs& args, const SegmentCut& cut,
                       std::vector<AttentionTile>& tiles);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
