// How fast are the CUDA kernels, beside what the device can do? Products of a
// 12B model's shapes (48 layers of 3840, 16 heads of 256 over 8, 15360, a
// vocabulary of 262144) for one row, 8 and 32, as a share of the bandwidth of
// copies; for many rows, with each kernel, as a share of cuBLAS's bf16 rate;
// attention at 128 K tokens and of prompts; whole decode steps call by call, as
// graphs, and as graphs whose kernels overlap, with the memory that a graph
// takes. Prints one table; needs nothing but a device.
//
// Usage: cuda_bench [DEVICE [PART...]]. Parts are attention, rest, steps, few,
// prefill, decode (these unless some are named), step, row (for one row) and
// calls (call by call, for a profiler). Exits with 77 if there is no device.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "bench/cuda/product.h"
#include "bench/cuda/step.h"
#include "bench/cuda/timing.h"
#include "bench/must.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_rates.h"
#include "kernels/quant/kv_row.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {
namespace {

constexpr int kExitNoDevice = 77;
constexpr int64_t kLayers = 48;
constexpr int64_t kHeads = 16;
constexpr int64_t kKvHeads = 8;
constexpr int64_t kHeadDim = 256;
constexpr int64_t kModelDim = 3840;
constexpr int64_t kFfnDim = 15'360;
constexpr int64_t kVocabulary = 262'144;

struct Shape {
  const char* name;
  int64_t rows;
  int64_t cols;
  int64_t per_model;
};
constexpr Shape kShapes[] = {
    {"q", kHeads* kHeadDim, kModelDim, kLayers},
    {"k, v", kKvHeads* kHeadDim, kModelDim, 2 * kLayers},
    {"attention out", kModelDim, kHeads* kHeadDim, kLayers},
    {"gate, up", kFfnDim, kModelDim, 2 * kLayers},
    {"down", kModelDim, kFfnDim, kLayers},
    {"vocabulary", kVocabulary, kModelDim, 1},
};

// Products of a decode step: each shape, and all of the model.
void BenchDecode(Backend& backend, const Rates& rates,
                 std::span<const int64_t> row_counts) {
  for (const DType dtype :
       {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kBF16}) {
    for (const int64_t n_rows : row_counts) {
      double seconds = 0;
      double bytes = 0;
      for (const Shape& shape : kShapes) {
        Product product(backend, dtype, shape.rows, shape.cols, n_rows);
        const double time = product.Run();
        const double rate = static_cast<double>(product.weight_bytes()) / time;
        PrintLine(
            absl::StrCat(DTypeName(dtype), " ", shape.name, ", rows ", n_rows),
            time, Gigabytes(rate), rate / rates.copy_bytes);
        seconds += time * static_cast<double>(shape.per_model);
        bytes += static_cast<double>(product.weight_bytes()) *
                 static_cast<double>(shape.per_model);
      }
      PrintLine(
          absl::StrCat(DTypeName(dtype), " ALL of 12B, rows ", n_rows, ": ",
                       std::lround(static_cast<double>(n_rows) / seconds),
                       " tokens/s"),
          seconds, Gigabytes(bytes / seconds),
          bytes / seconds / rates.copy_bytes);
    }
  }
}

// Kernels of products of many rows, each by itself, so that their options
// (CudaOptions) can be chosen by measurement.
void BenchPrefill(int device, const Rates& rates) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  struct Variant {
    const char* name;
    int64_t prompt_product_rows;
    int64_t half_product_rows;
    bool wgmma = false;
  };
  for (const Variant& variant : {Variant{"one kernel", kNever, kNever},
                                 {"blocks", 1, kNever},
                                 {"half", kNever, 1},
                                 {"wgmma", kNever, 1, true}}) {
    CudaOptions options;
    options.prompt_product_rows = variant.prompt_product_rows;
    options.half_product_rows = variant.half_product_rows;
    options.wgmma_rows = variant.wgmma ? 1 : kNever;
    const auto backend = Must(NewCudaBackend(device, options));
    for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
      for (const int64_t n_rows : {64, 128, 512, 4096}) {
        Product product(*backend, dtype, kFfnDim, kModelDim, n_rows);
        const double time = product.Run();
        const double rate =
            2.0 * static_cast<double>(n_rows * kFfnDim * kModelDim) / time;
        PrintLine(
            absl::StrCat(DTypeName(dtype), " gate, ", variant.name, ", rows ",
                         n_rows),
            time, Teraflops(rate),
            rates.matrix_operations > 0 ? rate / rates.matrix_operations : 0);
      }
    }
  }
}

// Products of few rows that stream weights, with other numbers of slices,
// beside those that do not (CudaOptions::streams_few_rows, few_row_slices).
// With 8 rows the latter are exact (wgmma_rows).
void BenchFewRows(int device, const Rates& rates) {
  constexpr Shape kLaunches[] = {
      {"q, k and v", (kHeads + 2 * kKvHeads) * kHeadDim, kModelDim, 1},
      {"attention out", kModelDim, kHeads * kHeadDim, 1},
      {"gate and up", 2 * kFfnDim, kModelDim, 1},
      {"down", kModelDim, kFfnDim, 1},
  };
  CudaOptions options;
  options.streams_few_rows = false;
  const auto without = Must(NewCudaBackend(device, options));
  options.streams_few_rows = true;
  options.wgmma_rows = 1;
  const auto owner = Must(NewCudaBackend(device, options));
  std::vector<std::pair<int64_t, std::unique_ptr<Backend>>> forced;
  for (const int64_t slices : {2, 3, 4, 5, 6, 8, 11, 15, 22}) {
    options.few_row_slices = slices;
    forced.emplace_back(slices, Must(NewCudaBackend(device, options)));
  }
  for (const DType dtype :
       {DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K}) {
    for (const int64_t n_rows : {8, 32, 64}) {
      for (const Shape& shape : kLaunches) {
        Product product(*owner, dtype, shape.rows, shape.cols, n_rows);
        const auto print = [&](const std::string& way, Backend& on) {
          const double time = product.RunHeld(on);
          const double rate =
              static_cast<double>(product.weight_bytes()) / time;
          PrintLine(absl::StrCat("few ", DTypeName(dtype), " ", shape.name,
                                 ", rows ", n_rows, ", ", way),
                    time, Gigabytes(rate), rate / rates.copy_bytes);
        };
        print("without streams", *without);
        print("streams", *owner);
        if (dtype != DType::kQ4_0 || n_rows != 32) continue;
        for (const auto& [slices, backend] : forced) {
          print(absl::StrCat("slices ", slices), *backend);
        }
      }
    }
  }
}

// How a step is started, each way on a backend of its own.
struct StepWay {
  const char* name;
  bool is_held;
  bool overlaps;  // CudaOptions::programmatic_launches
};
constexpr StepWay kStepWays[] = {
    {"calls", false, false},
    {"graph", true, false},
    {"graph, overlap", true, true},
};

std::unique_ptr<Backend> BackendFor(int device, const StepWay& way) {
  CudaOptions options;
  options.programmatic_launches = way.overlaps;
  return Must(NewCudaBackend(device, options));
}

// Whole decode steps of the model.
void BenchSteps(int device, const Rates& rates,
                std::span<const int64_t> row_counts) {
  constexpr StepShape kShape = {kLayers,   kHeads,  kKvHeads,   kHeadDim,
                                kModelDim, kFfnDim, kVocabulary};
  constexpr int64_t kContext = 1024;
  std::array<double, std::size(kStepWays)> alone = {};  // tokens/s of one row
  for (const int64_t n_rows : row_counts) {
    const auto owner = BackendFor(device, kStepWays[0]);
    DecodeStep step(*owner, kShape, DType::kQ4_0, n_rows, kContext);
    for (size_t i = 0; i < alone.size(); ++i) {
      const StepWay& way = kStepWays[i];
      const auto backend = BackendFor(device, way);
      step.UseBackend(*backend);
      Must(step.Run(false));
      const int64_t free_bytes = Must(cuda::FreeBytes(device));
      Must(step.Run(way.is_held));
      const int64_t taken = free_bytes - Must(cuda::FreeBytes(device));
      if (way.overlaps && !backend->Device().has_programmatic_launches) {
        std::printf("  %s: not on this device, or not with this driver\n",
                    way.name);
        continue;
      }
      const double time =
          Seconds(*backend, [&](int) { return step.Run(way.is_held); });
      const double rate = static_cast<double>(step.bytes_read()) / time;
      const double tokens = static_cast<double>(n_rows) / time;
      if (n_rows == 1) alone[i] = tokens;
      PrintLine(absl::StrCat("step of 12B, q4_0, rows ", n_rows, ", ", way.name,
                             ": ", std::lround(tokens), " tokens/s"),
                time, Gigabytes(rate), rate / rates.copy_bytes);
      if (!way.is_held) continue;
      std::printf("  the graph took %.1f MiB; tokens/s are %.1f x rows 1\n",
                  static_cast<double>(taken) / (1 << 20), tokens / alone[i]);
    }
  }
}

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
               DType kv_type, int64_t kv_dim) {
  const int64_t n_rows = 2 * kv.page_tokens;
  const int64_t row_bytes = KvBytes(kv_type, kv_dim);
  const Buffer values = RandomFloats(backend, n_rows * kv_dim);
  for (int64_t p = 0; p < n_pages; ++p) {
    std::vector<int64_t> offsets;
    for (int64_t r = 0; r < n_rows; ++r) {
      offsets.push_back(p * kv.page_bytes + r * row_bytes);
    }
    Must(backend.StoreRows(
        {Floats(values), n_rows, kv_dim, kv_type, kv.pool, offsets.data()}));
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
  const int64_t kv_dim = kKvHeads * c.head_dim;
  const int64_t row_bytes = KvBytes(c.kv_type, kv_dim);
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
  FillPages(backend, kv, n_pages, c.kv_type, kv_dim);
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

// Attention of generated tokens as a step's graph has it: calls of 16 layers,
// each with its own keys and values, so that starts and copies of page tables
// do not count. `n_rows` sequences of `n_ctx` tokens each.
void BenchDecodeAttention(int device, const Rates& rates, DType kv_type,
                          int64_t n_ctx, int64_t n_rows, int64_t spans) {
  constexpr int64_t kPageTokens = 64;
  constexpr int64_t kMostLayers = 16;
  constexpr int64_t kMostBytes = int64_t{16} << 30;
  CudaOptions options;
  options.decode_spans = spans;
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
                         " x ", n_ctx, ", spans ", spans),
            time, Gigabytes(rate), rate / rates.copy_bytes);
}

void BenchTopK(Backend& backend, int64_t n_rows) {
  const Buffer logits = RandomFloats(backend, n_rows * kVocabulary);
  const auto k = static_cast<size_t>(n_rows * kMaxCandidates);
  std::vector<float> values(k);
  std::vector<int32_t> ids(k);
  std::vector<double> sums(static_cast<size_t>(n_rows));
  PrintLine(absl::StrCat("64 largest logits, rows ", n_rows),
            Seconds(backend,
                    [&](int) {
                      return backend.TopK({Floats(logits), n_rows, kVocabulary,
                                           kMaxCandidates, values.data(),
                                           ids.data(), sums.data()});
                    }),
            "", 0);
  const std::vector<float> inverse(static_cast<size_t>(n_rows), 1.25f);
  std::vector<double> masses(inverse.size());
  PrintLine(absl::StrCat("64 largest logits at 0.8, rows ", n_rows),
            Seconds(backend,
                    [&](int) {
                      return backend.TopK({Floats(logits), n_rows, kVocabulary,
                                           kMaxCandidates, values.data(),
                                           ids.data(), sums.data(),
                                           inverse.data(), masses.data()});
                    }),
            "", 0);
}

void BenchSample(Backend& backend) {
  const Buffer logits = RandomFloats(backend, kVocabulary);
  const auto sample = [&](const char* what, SampleArgs args) {
    args.logits = Floats(logits);
    args.n = kVocabulary;
    args.u = 0.5;
    PrintLine(
        absl::StrCat("draw from a row, ", what),
        Seconds(backend, [&](int) { return backend.Sample(args).status(); }),
        "", 0);
  };
  sample("all tokens", {});
  sample("top_k 1000, top_p 0.95", {.top_k = 1000, .top_p = 0.95f});
}

void BenchRest(Backend& backend) {
  for (const int64_t n_rows : {1, 32}) {
    const Buffer x = RandomFloats(backend, n_rows * kFfnDim);
    const Buffer y = RandomFloats(backend, n_rows * kFfnDim);
    const Buffer packed =
        Must(backend.Allocate(n_rows * PackedRowBytes(kFfnDim)));
    PrintLine(absl::StrCat("norm and pack, rows ", n_rows),
              Seconds(backend,
                      [&](int) {
                        return backend.RmsNorm({Floats(x), Floats(y), Floats(y),
                                                n_rows, kModelDim, 1e-6f, false,
                                                packed.data()});
                      }),
              "", 0);
    PrintLine(absl::StrCat("GeGLU and pack, rows ", n_rows),
              Seconds(backend,
                      [&](int) {
                        return backend.GatedActivation(
                            {Floats(x), Floats(y), Floats(x), n_rows, kFfnDim,
                             Activation::kGeluTanh, packed.data()});
                      }),
              "", 0);
    BenchTopK(backend, n_rows);
  }
  BenchSample(backend);
}

Rates MeasureRates(int device) {
  constexpr int64_t kCopyBytes = int64_t{4} << 30;
  constexpr int64_t kMatrix = 8192;
  Rates rates;
  rates.copy_bytes = Must(cuda::CopyBytesPerSecond(device, kCopyBytes));
  std::printf("copies in device memory: %s, read and written\n",
              Gigabytes(rates.copy_bytes).c_str());
  const absl::StatusOr<double> matrix =
      cuda::MatrixOperationsPerSecond(device, kMatrix, kMatrix, kMatrix);
  if (matrix.ok()) {
    rates.matrix_operations = *matrix;
    std::printf("cuBLAS, bf16, 8192 cubed: %s\n", Teraflops(*matrix).c_str());
  } else {
    std::printf("cuBLAS: %s\n", matrix.status().ToString().c_str());
  }
  return rates;
}

void BenchAttentions(int device, Backend& backend, const Rates& rates) {
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    for (const int64_t spans : {8, 16, 32, 64}) {
      BenchDecodeAttention(device, rates, type, 128, 1, spans);
      BenchDecodeAttention(device, rates, type, 1'024, 1, spans);
      BenchDecodeAttention(device, rates, type, 4'096, 1, spans);
      BenchDecodeAttention(device, rates, type, 131'072, 1, spans);
      BenchDecodeAttention(device, rates, type, 1'024, 8, spans);
      BenchDecodeAttention(device, rates, type, 1'024, 32, spans);
      BenchDecodeAttention(device, rates, type, 4'096, 8, spans);
      BenchDecodeAttention(device, rates, type, 4'096, 32, spans);
    }
    BenchAttention(backend, rates, "", {type, 131'072, 1});
    BenchAttention(backend, rates, "", {type, 4'096, 1});
  }
  BenchPromptAttention(device, rates);
}

// Steps of one row and of 32 as a profiler sees them best.
void RunCalls(int device) {
  constexpr StepShape kShape = {3,         kHeads,  kKvHeads,   kHeadDim,
                                kModelDim, kFfnDim, kVocabulary};
  const auto backend = BackendFor(device, kStepWays[0]);
  for (const int64_t n_rows : {1, 8, 32, 512}) {
    DecodeStep step(*backend, kShape, DType::kQ4_0, n_rows, 1024);
    for (int i = 0; i < 3; ++i) Must(step.Run(false));
  }
}

int Run(int device, std::span<const std::string> parts) {
  const auto has = [&](absl::string_view part) {
    return std::ranges::find(parts, part) != parts.end();
  };
  absl::StatusOr<std::unique_ptr<Backend>> backend = NewCudaBackend(device);
  if (absl::IsNotFound(backend.status())) {
    std::fprintf(stderr, "SKIPPED: %s\n", backend.status().ToString().c_str());
    return kExitNoDevice;
  }
  Must(backend.status());
  std::printf("%s\n", Must(cuda::DescribeDevice(device)).c_str());
  const Rates rates = MeasureRates(device);
  std::printf("Shares are of these two.\n\n");
  if (has("calls")) RunCalls(device);
  if (has("attention")) BenchAttentions(device, **backend, rates);
  if (has("rest")) BenchRest(**backend);
  constexpr int64_t kRowCounts[] = {1, 8, 32};
  const auto one = std::span<const int64_t>(kRowCounts).first(1);
  if (has("step")) BenchSteps(device, rates, one);
  if (has("steps")) BenchSteps(device, rates, kRowCounts);
  if (has("few")) BenchFewRows(device, rates);
  if (has("prefill")) BenchPrefill(device, rates);
  if (has("row")) BenchDecode(**backend, rates, one);
  if (has("decode")) BenchDecode(**backend, rates, kRowCounts);
  return 0;
}

}  // namespace
}  // namespace plimsoll::kernels

int main(int argc, char** argv) {
  std::vector<std::string> parts(argv + std::min(argc, 2), argv + argc);
  if (parts.empty())
    parts = {"attention", "rest", "steps", "few", "prefill", "decode"};
  return plimsoll::kernels::Run(argc > 1 ? std::atoi(argv[1]) : 0, parts);
}
