// How fast are the kernels? Products of every weight type for one row (GEMV,
// bytes of weights per second) and 512 rows (GEMM, multiply-adds per second),
// and attention, on as many threads as the process has CPUs.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/packed_row.h"

namespace plimsoll::kernels {
namespace {

Backend& TheBackend() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool is_known = sched_getaffinity(0, sizeof(set), &set) == 0;
  static ThreadPool pool(is_known ? CPU_COUNT(&set) : 1);
  static const std::unique_ptr<Backend> backend = NewCpuBackend(pool);
  return *backend;
}

// Weights whose scales are all 2^-10, in the backend's storage.
struct Matrix {
  Matrix(DType dtype, int64_t rows, int64_t cols) {
    const DTypeInfo& info = InfoOf(dtype);
    const int64_t bytes = rows * cols / info.block_elems * info.block_bytes;
    std::vector<std::byte> file(static_cast<size_t>(bytes), std::byte{0x14});
    buffer = *TheBackend().Allocate(bytes + 16 * 4 * cols);
    const absl::Status status =
        TheBackend().UploadRows(dtype, rows, cols, 0, file, buffer.view());
    if (!status.ok()) std::abort();
    view = {dtype, rows, cols, buffer.data()};
    file_bytes = bytes;
  }
  Buffer buffer;
  WeightMatrix view;
  int64_t file_bytes = 0;
};

void MatMulOf(benchmark::State& state, DType dtype, bool is_packed) {
  const int64_t n_rows = state.range(0);
  const int64_t outputs = state.range(1);
  const int64_t cols = state.range(2);
  // Several matrices, so that a GEMV reads from memory as a model does.
  const int64_t row_bytes = *RowBytes(dtype, cols);
  const int64_t n_matrices =
      n_rows == 1
          ? std::max<int64_t>(1, (int64_t{128} << 20) / (outputs * row_bytes))
          : 1;
  std::vector<Matrix> matrices;
  for (int64_t i = 0; i < n_matrices; ++i) {
    matrices.emplace_back(dtype, outputs, cols);
  }
  std::mt19937 random(1);
  std::vector<float> x(static_cast<size_t>(n_rows * cols));
  for (float& value : x) {
    value = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  std::vector<std::byte> packed(
      static_cast<size_t>(n_rows * PackedRowBytes(cols)));
  std::vector<float> out(static_cast<size_t>(n_rows * outputs));
  if (!TheBackend()
           .PackActivations({x.data(), n_rows, cols, packed.data()})
           .ok()) {
    return state.SkipWithError("packing failed");
  }
  size_t next = 0;
  for (auto _ : state) {
    const absl::Status status = TheBackend().MatMul(
        {matrices[next].view, x.data(), is_packed ? packed.data() : nullptr,
         out.data(), n_rows, false});
    if (!status.ok()) return state.SkipWithError("product failed");
    next = (next + 1) % matrices.size();
  }
  state.SetBytesProcessed(state.iterations() * matrices[0].file_bytes);
  state.counters["MAC/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * n_rows * outputs * cols),
      benchmark::Counter::kIsRate);
}

void AttentionOf(benchmark::State& state, DType dtype) {
  const int64_t n_rows = state.range(0);
  const int64_t n_keys = state.range(1);
  const int64_t n_heads = state.range(2);
  const int64_t n_kv_heads = state.range(3);
  const int64_t head_dim = state.range(4);
  const int64_t row_bytes = *RowBytes(dtype, n_kv_heads * head_dim);
  PagedKv paged;
  paged.page_tokens = 64;
  paged.v_offset = 64 * row_bytes;
  paged.page_bytes = 2 * 64 * row_bytes;
  const Buffer pool =
      *TheBackend().Allocate((n_keys + 63) / 64 * paged.page_bytes);
  paged.pool = pool.data();
  std::vector<PageEntry> table;
  for (int64_t p = 0; p * 64 < n_keys; ++p) {
    table.push_back(
        {p * 64, static_cast<int32_t>(p), 0,
         static_cast<int32_t>(std::min<int64_t>(64, n_keys - p * 64)), false});
  }
  std::vector<float> q(static_cast<size_t>(n_rows * n_heads * head_dim), 0.5f);
  std::vector<float> out(q.size());
  const AttentionSegment segment = {0, n_rows, n_keys - n_rows, table, {}, 0};
  AttentionArgs args = {};
  args.q = args.q_prefix = q.data();
  args.out = out.data();
  args.n_heads = n_heads;
  args.n_kv_heads = n_kv_heads;
  args.head_dim = head_dim;
  args.scale = 0.125f;
  args.k_type = args.v_type = dtype;
  args.segments = {&segment, 1};
  args.paged = paged;
  for (auto _ : state) {
    if (!TheBackend().Attention(args).ok()) {
      return state.SkipWithError("attention failed");
    }
  }
  // Each query sees the keys up to its own position.
  const int64_t pairs = n_rows * (n_keys - n_rows) + n_rows * (n_rows + 1) / 2;
  state.counters["MAC/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * pairs * n_heads * head_dim * 2),
      benchmark::Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * n_keys * row_bytes * 2);
}

void TopKOf(benchmark::State& state) {
  const int64_t n = state.range(0);
  std::mt19937 random(1);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& value : logits) {
    value = std::normal_distribution<float>(0, 4)(random);
  }
  float values[10];
  int32_t ids[10];
  double log_sum_exp;
  for (auto _ : state) {
    if (!TheBackend()
             .TopK({logits.data(), 1, n, 10, values, ids, &log_sum_exp})
             .ok()) {
      return state.SkipWithError("top-k failed");
    }
  }
  state.SetBytesProcessed(state.iterations() * n * 4);
}

void Register() {
  for (const DType dtype :
       {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
        DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kF16, DType::kF32}) {
    const bool is_float = dtype == DType::kF16 || dtype == DType::kF32;
    for (const bool is_packed : {true, false}) {
      if (is_packed && is_float) continue;
      const std::string name =
          std::string("MatMul/") +
          std::string(DTypeName(dtype).data(), DTypeName(dtype).size()) +
          (is_packed ? "/int" : "/float");
      benchmark::RegisterBenchmark(name.c_str(), MatMulOf, dtype, is_packed)
          ->ArgNames({"rows", "outputs", "cols"})
          ->Args({1, 2048, 768})
          ->Args({1, 640, 2048})
          ->Args({512, 2048, 768})
          ->Args({512, 640, 2048})
          ->UseRealTime();
    }
  }
  for (const DType dtype : {DType::kF16, DType::kQ8_0}) {
    const std::string name =
        std::string("Attention/") +
        std::string(DTypeName(dtype).data(), DTypeName(dtype).size());
    benchmark::RegisterBenchmark(name.c_str(), AttentionOf, dtype)
        ->ArgNames({"rows", "keys", "heads", "kv", "dim"})
        ->Args({1, 4096, 9, 3, 64})
        ->Args({512, 512, 9, 3, 64})
        ->Args({512, 4096, 9, 3, 64})
        ->Args({1, 4096, 4, 1, 256})
        ->Args({512, 512, 4, 1, 256})
        ->UseRealTime();
  }
  benchmark::RegisterBenchmark("TopK", TopKOf)
      ->ArgNames({"vocab"})
      ->Arg(49152)
      ->Arg(262144)
      ->UseRealTime();
}

}  // namespace
}  // namespace plimsoll::kernels

int main(int argc, char** argv) {
  plimsoll::kernels::Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
