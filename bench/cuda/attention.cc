#include "bench/cuda/attention.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/cuda/model.h"
#include "kernels/quant/kv_row.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {
namespace {

struct AttentionCase {
  DType kv_type;
  int64_t n_ctx;
  int64_t n_rows;
  int64_t head_dim = kHeadDim;
  int64_t n_heads = kHeads;
  int64_t window = 0;  // 0: pages
};

// Fills pages with rows of real numbers, or the times would be those of NaN.
void FillPages(Backend& backend, const PagedKv& kv, int64_t n_pages,
               const AttentionCase& c) {
  const int64_t n_rows = 2 * kv.page_tokens;
  const int64_t kv_dim = kKvHeads * c.head_dim;
  const int64_t row_bytes = KvBytes(c.kv_type, kv_dim);
  const Buffer values = RandomFloats(backend, n_rows * kv_dim);
  for (int64_t p = 0; p < n_pages; ++p) {
    std::vector<int64_t> offsets;
    for (int64_t r = 0; r < n_rows; ++r) {
      offsets.push_back(p * kv.page_bytes + r * row_bytes);
    }
    Must(backend.StoreRows(
        {Floats(values), n_rows, kv_dim, c.kv_type, kv.pool, offsets.data()}));
  }
}

// Prints the time of one row as a share of the bandwidth, and that of more rows
// as a share of the matrix operations.
void PrintAttention(const Rates& rates, const char* way, const AttentionCase& c,
                    double time) {
  const bool is_ring = c.window > 0;
  const std::string what = absl::StrCat(
      "attention ", DTypeName(c.kv_type), ", head ", c.head_dim, ", ",
      is_ring ? absl::StrCat("window ", c.window)
              : absl::StrCat(c.n_ctx, " tokens"),
      ", rows ", c.n_rows, way);
  if (c.n_rows == 1) {
    const int64_t row_bytes = KvBytes(c.kv_type, kKvHeads * c.head_dim);
    const double rate = 2.0 * static_cast<double>(c.n_ctx * row_bytes) / time;
    PrintLine(what, time, Gigabytes(rate), rate / rates.copy_bytes);
    return;
  }
  const auto rows = static_cast<double>(c.n_rows);
  const double pairs =
      rows * (is_ring ? static_cast<double>(c.window)
                      : static_cast<double>(c.n_ctx) - rows / 2);
  const double rate =
      4.0 * pairs * static_cast<double>(c.n_heads * c.head_dim) / time;
  PrintLine(what, time, Teraflops(rate),
            rates.matrix_operations > 0 ? rate / rates.matrix_operations : 0);
}

// One layer's attention of `n_rows` rows at the end of `n_ctx` tokens.
void BenchAttention(Backend& backend, const Rates& rates, const char* way,
                    const AttentionCase& c) {
  constexpr int64_t kPageTokens = 64;
  const int64_t row_bytes = KvBytes(c.kv_type, kKvHeads * c.head_dim);
  const bool is_ring = c.window > 0;
  // A ring and the rows of the chunk take whole pages of this memory too.
  const int64_t n_pages =
      (is_ring ? c.window + c.n_rows : c.n_ctx) / kPageTokens + 1;
  PagedKv kv;
  kv.page_bytes = 2 * kPageTokens * row_bytes;
  kv.v_offset = kPageTokens * row_bytes;
  kv.page_tokens = kPageTokens;
  Buffer pool = Must(backend.Allocate(n_pages * kv.page_bytes));
  kv.pool = pool.data();
  FillPages(backend, kv, n_pages, c);
  std::vector<PageEntry> table;
  for (int64_t p = 0; p < n_pages && p * kPageTokens < c.n_ctx; ++p) {
    table.push_back(
        {p * kPageTokens, static_cast<int32_t>(p), 0, kPageTokens, false});
  }
  const Buffer q = RandomFloats(backend, c.n_rows * c.n_heads * c.head_dim);
  const Buffer out =
      Must(backend.Allocate(c.n_rows * c.n_heads * c.head_dim * 4));
  AttentionSegment segment = {0,  c.n_rows, c.n_ctx - c.n_rows, {},
                              {}, 0,        c.n_rows > 1};
  AttentionArgs args = {};
  if (is_ring) {
    segment.ring = {pool.data(), pool.data() + c.window * row_bytes, c.window};
    args.is_ring = true;
    args.chunk_k = pool.data() + 2 * c.window * row_bytes;
    args.chunk_v = args.chunk_k + c.n_rows * row_bytes;
  } else {
    segment.pages = table;
  }
  args.q = args.q_prefix = Floats(q);
  args.out = Floats(out);
  args.n_heads = c.n_heads;
  args.n_kv_heads = kKvHeads;
  args.head_dim = c.head_dim;
  args.scale = 1.0f / 16;
  args.k_type = args.v_type = c.kv_type;
  args.segments = {&segment, 1};
  args.paged = kv;
  const double time =
      Seconds(backend, [&](int) { return backend.Attention(args); });
  PrintAttention(rates, way, c, time);
}

// Attention of prompts in each of the ways that tensor cores have, and without.
void BenchPromptAttention(int device, const Rates& rates) {
  struct Way {
    const char* name;
    bool has_wgmma;
    int64_t n_slices;
  };
  constexpr Way kWays[] = {
      {", mma, 1 slice", false, 1},   {", mma, 2 slices", false, 2},
      {", mma, 4 slices", false, 4},  {", wgmma, 1 slice", true, 1},
      {", wgmma, 2 slices", true, 2}, {", wgmma, 4 slices", true, 4},
  };
  std::vector<std::unique_ptr<Backend>> backends;
  for (const Way& way : kWays) {
    CudaOptions options;
    options.wgmma_attention = way.has_wgmma;
    options.prompt_attention_slices = way.n_slices;
    backends.push_back(Must(NewCudaBackend(device, options)));
  }
  CudaOptions one_kernel;
  one_kernel.tensor_attention = CudaOptions::TensorAttention::kNone;
  const auto without = Must(NewCudaBackend(device, one_kernel));
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    for (const AttentionCase& c :
         {AttentionCase{type, 4'096, 8}, AttentionCase{type, 4'096, 64},
          AttentionCase{type, 4'096, 512}, AttentionCase{type, 4'096, 4'096},
          AttentionCase{type, 32'768, 512}, AttentionCase{type, 131'072, 512},
          AttentionCase{type, 4'096, 512, 256, 16, 1'024},
          AttentionCase{type, 4'096, 512, 128, 32},
          AttentionCase{type, 4'096, 4'096, 128, 32},
          AttentionCase{type, 32'768, 512, 128, 32}}) {
      for (size_t i = 0; i < std::size(kWays); ++i) {
        BenchAttention(*backends[i], rates, kWays[i].name, c);
      }
      if (c.n_ctx <= 4'096) {
        BenchAttention(*without, rates, ", without tensor cores", c);
      }
    }
  }
}

// Sequences of `n_ctx` tokens whose pages follow each other, and which get one
// more row each.
struct PagedSequences {
  std::vector<std::vector<PageEntry>> tables;
  std::vector<AttentionSegment> segments;

  PagedSequences(int64_t n_rows, int64_t n_ctx, int64_t page_tokens)
      : tables(static_cast<size_t>(n_rows)) {
    const int64_t n_pages = n_ctx / page_tokens;
    for (int64_t r = 0; r < n_rows; ++r) {
      auto& table = tables[static_cast<size_t>(r)];
      for (int64_t p = 0; p < n_pages; ++p) {
        table.push_back({p * page_tokens, static_cast<int32_t>(r * n_pages + p),
                         0, static_cast<int32_t>(page_tokens), false});
      }
      segments.push_back({r, 1, n_ctx - 1, table, {}, 0, false});
    }
  }
};

// `n_rows` sequences of `n_ctx` tokens get one more row each.
struct DecodeCase {
  DType kv_type;
  int64_t spans;  // CudaOptions::decode_spans
  int64_t n_ctx;
  int64_t n_rows;
};

// Attention of generated tokens as a step's graph has it: calls of 16 layers,
// each with its own keys and values, so that starts and copies of page tables
// do not count.
void BenchDecodeAttention(int device, const Rates& rates, const DecodeCase& c) {
  const DType kv_type = c.kv_type;
  const int64_t n_ctx = c.n_ctx;
  const int64_t n_rows = c.n_rows;
  constexpr int64_t kPageTokens = 64;
  constexpr int64_t kMostLayers = 16;
  constexpr int64_t kMostBytes = int64_t{16} << 30;
  CudaOptions options;
  options.decode_spans = c.spans;
  const auto backend = Must(NewCudaBackend(device, options));
  const int64_t row_bytes = KvBytes(kv_type, kKvHeads * kHeadDim);
  const int64_t n_pages = n_rows * n_ctx / kPageTokens;
  const int64_t layer_bytes = 2 * n_rows * n_ctx * row_bytes;
  const int64_t layers =
      std::clamp<int64_t>(kMostBytes / layer_bytes, 1, kMostLayers);
  PagedKv kv;
  kv.page_bytes = layers * 2 * kPageTokens * row_bytes;
  kv.page_tokens = kPageTokens;
  // Zeros are real numbers, and reading them takes as long as any.
  const Buffer pool = Must(backend->Allocate(n_pages * kv.page_bytes));
  kv.pool = pool.data();
  const int64_t dim = kHeads * kHeadDim;
  const Buffer q = RandomFloats(*backend, n_rows * dim);
  const Buffer out = Must(backend->Allocate(n_rows * dim * 4));
  const Buffer packed = Must(backend->Allocate(n_rows * PackedRowBytes(dim)));
  const PagedSequences sequences(n_rows, n_ctx, kPageTokens);
  AttentionArgs args = {};
  args.q = args.q_prefix = Floats(q);
  args.out = Floats(out);
  args.n_heads = kHeads;
  args.n_kv_heads = kKvHeads;
  args.head_dim = kHeadDim;
  args.scale = 1.0f / 16;
  args.k_type = args.v_type = kv_type;
  args.segments = sequences.segments;
  args.packed = packed.data();
  const auto step = [&](int) -> absl::Status {
    RETURN_IF_ERROR(backend->BeginStep(n_rows));
    for (int64_t layer = 0; layer < layers; ++layer) {
      kv.k_offset = layer * 2 * kPageTokens * row_bytes;
      kv.v_offset = kv.k_offset + kPageTokens * row_bytes;
      args.paged = kv;
      RETURN_IF_ERROR(backend->Attention(args));
    }
    RETURN_IF_ERROR(backend->Synchronize());
    return backend->EndStep();
  };
  Must(step(0));
  const double time = Seconds(*backend, step) / static_cast<double>(layers);
  const double rate = static_cast<double>(layer_bytes) / time;
  PrintLine(absl::StrCat("decode attention ", DTypeName(kv_type), ", ", n_rows,
                         " x ", n_ctx, ", spans ", c.spans),
            time, Gigabytes(rate), rate / rates.copy_bytes);
}

}  // namespace

void BenchAttentions(int device, Backend& backend, const Rates& rates) {
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    for (const int64_t spans : {8, 16, 32, 64}) {
      BenchDecodeAttention(device, rates, {type, spans, 128, 1});
      BenchDecodeAttention(device, rates, {type, spans, 1'024, 1});
      BenchDecodeAttention(device, rates, {type, spans, 4'096, 1});
      BenchDecodeAttention(device, rates, {type, spans, 131'072, 1});
      BenchDecodeAttention(device, rates, {type, spans, 1'024, 8});
      BenchDecodeAttention(device, rates, {type, spans, 1'024, 32});
      BenchDecodeAttention(device, rates, {type, spans, 4'096, 8});
      BenchDecodeAttention(device, rates, {type, spans, 4'096, 32});
    }
    BenchAttention(backend, rates, "", {type, 131'072, 1});
    BenchAttention(backend, rates, "", {type, 4'096, 1});
  }
  BenchPromptAttention(device, rates);
}

}  // namespace plimsoll::kernels
