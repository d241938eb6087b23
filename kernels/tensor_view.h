// Views of weights and of the KV cache as kernels see them.
#ifndef PLIMSOLL_KERNELS_TENSOR_VIEW_H_
#define PLIMSOLL_KERNELS_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace plimsoll::kernels {

// How a weight matrix is stored: as the backend packs it (Backend::UploadRows),
// or as the file has it, row after row, in the host's memory. Results have the
// same bits. Backends of other devices read the file's order in GetRows alone.
enum class WeightOrder { kPacked, kFile };

// A weight matrix: y[r] = scale * sum over c of W[r][c] * x[c].
struct WeightMatrix {
  DType dtype = DType::kF32;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs
  const std::byte* data = nullptr;
  WeightOrder order = WeightOrder::kPacked;
  // One number that multiplies products, or null: there is none. Rows that are
  // gathered are not multiplied.
  const float* scale = nullptr;

  // Requires memory that the host can read.
  float HostScale() const { return scale == nullptr ? 1.0f : *scale; }
};

// Some rows of a weight matrix, in the file's layout.
struct WeightRows {
  DType dtype = DType::kF32;
  int64_t rows = 0;  // the whole matrix's
  int64_t cols = 0;
  int64_t first_row = 0;
  std::span<const std::byte> bytes = {};  // host, from first_row on
};

// One page of a sequence's page table. Keys of a page lie at consecutive
// positions.
struct PageEntry {
  int64_t first_position;  // position of the page's cell 0
  int32_t page;            // index in the pool
  int32_t live_begin;      // cells [live_begin, live_end) hold live tokens
  int32_t live_end;
  bool is_prefix;  // pinned prefix: attended with the second rotation of q
};

// Where one layer keeps keys and values in pages: cell c of page p is at
// pool + p * page_bytes + {k,v}_offset + c * row_bytes.
struct PagedKv {
  std::byte* pool = nullptr;
  int64_t page_bytes = 0;
  int64_t k_offset = 0;  // this layer's keys inside a page
  int64_t v_offset = 0;
  int64_t page_tokens = 0;
};

// Where one sliding-window layer of one sequence keeps keys and values: the
// token at position p is in cell p % window.
struct RingKv {
  std::byte* k = nullptr;  // [window] rows
  std::byte* v = nullptr;
  int64_t window = 0;
};

// The rows of one sequence in a step, and what they may attend to.
struct AttentionSegment {
  int64_t first_row;  // in the step's [n_rows, ...] buffers
  int64_t n_rows;
  int64_t first_position;  // position of its first row; they are consecutive
  // Paged layers: the table, in the order of the reduction; it already covers
  // the rows of this step, whose K/V were stored before.
  std::span<const PageEntry> pages;
  // Ring layers: tokens before first_position that are still live start here
  // (evicted ones are masked).
  RingKv ring;
  int64_t live_begin = 0;
  // True for rows of a prompt; a backend may use another kernel for them. In
  // either case a row's bits do not depend on the chunk or the batch.
  bool is_prompt = false;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_TENSOR_VIEW_H_
