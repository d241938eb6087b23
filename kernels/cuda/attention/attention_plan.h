// How a step's attention is cut into tasks of a warp: pure arithmetic, shared
// by the host, which lists tiles, and the kernels.
//
// A row's keys are reduced in units of up to kUnitKeys, units in spans, spans
// in order. Where those begin depends only on the row's position and on what it
// sees, so neither chunks nor other rows change a bit of the result.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/tensor_view.h"

namespace plimsoll::kernels {

// Keys of one softmax: it is exact for them, and merged with what came before.
inline constexpr int64_t kUnitKeys = 128;
// Spans of a row at most, up to twice as many where a ring's are cut.
inline constexpr int64_t kMaxAttentionSpans = 128;

// Up to these many heads of one or more rows, all of which read one KV head,
// are a warp's queries; of wide heads half as many, whose sums fill registers.
inline constexpr int64_t kTaskQueries = 4;
inline constexpr int64_t kNarrowHeadDim = 256;
constexpr int64_t QueriesOf(int64_t head_dim) {
  return head_dim <= kNarrowHeadDim ? kTaskQueries : kTaskQueries / 2;
}
// Keys of a warp's step: a score for each lane.
constexpr int64_t StepKeys(int64_t n_queries) { return 32 / n_queries; }

// Of a paged layer: pages of a unit, each of whole steps.
constexpr int64_t PageSlots(int64_t page_tokens, int64_t step_keys) {
  return (page_tokens + step_keys - 1) / step_keys * step_keys;
}
constexpr int64_t UnitPages(int64_t page_tokens, int64_t step_keys) {
  const int64_t slots = PageSlots(page_tokens, step_keys);
  return slots < kUnitKeys ? kUnitKeys / slots : 1;
}

// Rows of one segment with the same spans; what a task's queries come from.
struct AttentionTile {
  int64_t first_row;  // in the step's buffers
  int64_t n_rows;
  int64_t first_position;
  // Units [first_unit, end_unit) hold all that the rows see; units of pages
  // count in the table, units of a ring in positions. Spans begin at multiples
  // of span_units.
  int64_t first_unit;
  int64_t end_unit;
  int64_t span_units;
  // Paged layers: the segment's table.
  const PageEntry* pages;
  int64_t n_pages;
  // Ring layers.
  const std::byte* ring_k;
  const std::byte* ring_v;
  int64_t window;
  int64_t live_begin;
  int64_t chunk_position;  // position of chunk row 0 of the segment
  int64_t chunk_row;       // that row

  constexpr int64_t FirstSpan() const { return first_unit / span_units; }
  constexpr int64_t Spans() const {
    return (end_unit - 1) / span_units - FirstSpan() + 1;
  }
};

// The tiles of a segment's rows, none of which has more than `tile_rows`.
// `pages` is where the device finds the segment's table.
void AppendTiles(const AttentionArgs& args, const AttentionSegment& segment,
                 int64_t tile_rows, const PageEntry* pages,
                 std::vector<AttentionTile>& tiles);

// Prompts, on the tensor cores: 16 queries meet tiles of 64 keys, a page or
// aligned positions of a ring. Units are the same as above: two tiles.
inline constexpr int64_t kPromptQueries = 16;
inline constexpr int64_t kPromptKeys = 64;
inline constexpr int64_t kPromptUnitSteps = kUnitKeys / kPromptKeys;

constexpr bool HasPromptType(DType dtype) { return dtype != DType::kF32; }

// The tiles of a segment's rows for that; spans are not used.
void AppendPromptTiles(const AttentionArgs& args,
                       const AttentionSegment& segment, int64_t tile_rows,
                       const PageEntry* pages,
                       std::vector<AttentionTile>& tiles);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
