// How fast are the kernels, beside what the machine can do? Products of every
// weight type for one row (GEMV, bytes of the file's weights per second, of the
// bandwidth at which the same threads read memory) and for 512 rows (GEMM, two
// operations a multiply-add, of the rate of integer products in registers), a
// layer of experts, attention, and layers with a state, on as many threads as
// the process has CPUs. Products are named "mapped" if their weights have the
// file's order, as with --mmap.
// Flags: --all for more shapes and for float activations, --path=AVX2 for
// another instruction path than the best, and those of Google Benchmark.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "bench/kernel_rates.h"
#include "bench/kernels_states.h"
#include "kernels/backend.h"
#include "kernels/cpu/path_timing.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/experts.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {
namespace {

// How a product reads its weights and its activations.
enum class Inputs {
  kPacked,  // both as the backend packs them
  kFloats,  // activations as float32
  kMapped,  // weights in the file's order, as `--mmap` leaves them
};

// Weights whose scales are all 2^-10.
struct Matrix {
  Matrix(DType dtype, int64_t rows, int64_t cols, WeightOrder order) {
    const DTypeInfo& info = InfoOf(dtype);
    const int64_t bytes = rows * cols / info.block_elems * info.block_bytes;
    file.assign(static_cast<size_t>(bytes), std::byte{0x14});
    view = {dtype, rows, cols, file.data(), order};
    file_bytes = bytes;
    if (order == WeightOrder::kFile) return;
    buffer = *TheBackend().Allocate(bytes + 16 * 4 * cols);
    const absl::Status status = TheBackend().UploadRows(
        {.dtype = dtype, .rows = rows, .cols = cols, .bytes = file},
        buffer.view());
    if (!status.ok()) std::abort();
    view.data = buffer.data();
    file = {};
  }
  std::vector<std::byte> file;  // its bytes, if they are not packed
  Buffer buffer;
  WeightMatrix view;
  int64_t file_bytes = 0;
};

// Matrices [outputs, cols] are multiplied with `n_rows` rows.
struct ProductCase {
  DType dtype;
  WeightOrder order;
  int64_t n_rows;
  int64_t outputs;
  int64_t cols;

  bool operator==(const ProductCase&) const = default;
};

// Matrices of more than caches hold for one row, one for more rows; those of
// the last call are kept, as Google Benchmark calls a function several times.
const std::vector<Matrix>& Matrices(const ProductCase& wanted) {
  static std::vector<Matrix> matrices;
  static ProductCase last;
  if (matrices.empty() || last != wanted) {
    last = wanted;
    const auto [dtype, order, n_rows, outputs, cols] = wanted;
    matrices.clear();
    const int64_t bytes = outputs * *RowBytes(dtype, cols);
    const int64_t n =
        n_rows == 1 ? std::max<int64_t>(1, kMemoryBytes / bytes) : 1;
    for (int64_t i = 0; i < n; ++i) {
      matrices.emplace_back(dtype, outputs, cols, order);
    }
  }
  return matrices;
}

void MatMulOf(benchmark::State& state, DType dtype, Inputs inputs) {
  const int64_t n_rows = state.range(0);
  const int64_t outputs = state.range(1);
  const int64_t cols = state.range(2);
  const WeightOrder order =
      inputs == Inputs::kMapped ? WeightOrder::kFile : WeightOrder::kPacked;
  const std::vector<Matrix>& matrices =
      Matrices({dtype, order, n_rows, outputs, cols});
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
  const auto begin = Clock::now();
  for (auto _ : state) {
    const absl::Status status = TheBackend().MatMul(
        {matrices[next].view, x.data(),
         inputs == Inputs::kFloats ? nullptr : packed.data(), out.data(),
         n_rows, false});
    if (!status.ok()) return state.SkipWithError("product failed");
    next = (next + 1) % matrices.size();
  }
  const double times =
      static_cast<double>(state.iterations()) / SecondsSince(begin);
  const auto products = static_cast<double>(n_rows * outputs * cols);
  const auto bytes = static_cast<double>(matrices[0].file_bytes);
  state.SetLabel(n_rows == 1 ? ReadFigure(times * bytes)
                             : ProductFigure(times * products));
}

// A layer of experts: 128 of which a row has 8, as in a Qwen 3 of 30B.
class ExpertLayer {
 public:
  explicit ExpertLayer(DType dtype)
      : gate_(dtype, kExperts * kFfnDim, kModelDim, WeightOrder::kPacked),
        up_(dtype, kExperts * kFfnDim, kModelDim, WeightOrder::kPacked),
        down_(dtype, kExperts * kModelDim, kFfnDim, WeightOrder::kPacked) {}

  static constexpr int64_t kExperts = 128;
  static constexpr int64_t kUsed = 8;
  static constexpr int64_t kModelDim = 2048;
  static constexpr int64_t kFfnDim = 768;

  // Multiply-adds of a row, and bytes of weights that it reads alone.
  static constexpr int64_t kRowProducts = 3 * kUsed * kFfnDim * kModelDim;
  int64_t RowBytes() const { return 3 * gate_.file_bytes / kExperts * kUsed; }

  // Makes `n_rows` rows and their buffers, and routes them.
  absl::Status Begin(int64_t n_rows, std::mt19937& random) {
    const int64_t n_places = n_rows * kUsed;
    x_.resize(At(n_rows * kModelDim));
    for (float& value : x_) {
      value = std::uniform_real_distribution<float>(-1, 1)(random);
    }
    packed_.resize(At(PackedRowBytes(n_places * kModelDim)));
    routed_.resize(At(ExpertRowsBytes(n_rows, kExperts, kUsed)));
    places_.resize(At(n_places * kModelDim));
    gated_.resize(At(n_places * kFfnDim));
    up_out_.resize(gated_.size());
    out_.resize(x_.size());
    rows_ = ExpertRowsAt(routed_.data(), n_rows, kExperts, kUsed);
    return Route(random);
  }
  // Gives the rows other experts.
  absl::Status Route(std::mt19937& random) {
    std::vector<float> logits(At(rows_.n_rows * kExperts));
    for (float& value : logits) {
      value = std::normal_distribution<float>(0, 1)(random);
    }
    return TheBackend().RouteExperts({.logits = logits.data(), .to = rows_});
  }
  absl::Status Run() {
    Backend& backend = TheBackend();
    RETURN_IF_ERROR(backend.PackActivations(
        {x_.data(), rows_.n_rows, kModelDim, packed_.data()}));
    ASSIGN_OR_RETURN(
        const std::byte* const hidden,
        backend.GatedExpertMatMul(
            {.rows = rows_,
             .gate = Experts(gate_, kFfnDim),
             .up = Experts(up_, kFfnDim),
             .x = x_.data(),
             .packed = packed_.data(),
             .activation = Activation::kSilu,
             .gathered = reinterpret_cast<std::byte*>(places_.data()),
             .out = gated_.data(),
             .up_out = up_out_.data(),
             .packed_out = packed_.data(),
             .keeps_floats = false}));
    return backend.ExpertSumMatMul({.rows = rows_,
                                    .w = Experts(down_, kModelDim),
                                    .x = gated_.data(),
                                    .packed = hidden,
                                    .products = places_.data(),
                                    .out = out_.data(),
                                    .accumulate = true});
  }

 private:
  static size_t At(int64_t i) { return static_cast<size_t>(i); }
  // The rows of the experts' matrices are whole panels, so that these lie one
  // after another as one matrix.
  static ExpertMatrices Experts(const Matrix& all, int64_t rows) {
    WeightMatrix first = all.view;
    first.rows = rows;
    return {.first = first, .matrix_bytes = all.file_bytes / kExperts};
  }

  Matrix gate_, up_, down_;
  std::vector<float> x_, places_, gated_, up_out_, out_;
  std::vector<std::byte> packed_, routed_;
  ExpertRows rows_;
};

void ExpertsOf(benchmark::State& state, DType dtype) {
  const int64_t n_rows = state.range(0);
  static std::unique_ptr<ExpertLayer> layer;
  static DType layer_dtype;
  if (layer == nullptr || layer_dtype != dtype) {
    layer.reset();
    layer = std::make_unique<ExpertLayer>(dtype);
    layer_dtype = dtype;
  }
  std::mt19937 random(1);
  if (!layer->Begin(n_rows, random).ok()) {
    return state.SkipWithError("routing failed");
  }
  double seconds = 0;
  for (auto _ : state) {
    const auto begin = Clock::now();
    if (!layer->Run().ok()) return state.SkipWithError("experts failed");
    const double taken = SecondsSince(begin);
    seconds += taken;
    state.SetIterationTime(taken);
    // One row's weights come from memory, as those of other layers come
    // between.
    if (n_rows == 1) (void)layer->Route(random);
  }
  const double times = static_cast<double>(state.iterations()) / seconds;
  state.SetLabel(
      n_rows == 1
          ? ReadFigure(times * static_cast<double>(layer->RowBytes()))
          : ProductFigure(times * static_cast<double>(
                                      n_rows * ExpertLayer::kRowProducts)));
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
  const int64_t n_pages = (n_keys + 63) / 64;
  // A decode finds keys and values in memory, as a model's weights came
  // between: so many tables take turns.
  const int64_t n_tables =
      n_rows == 1 ? kMemoryBytes / (n_pages * paged.page_bytes) + 1 : 1;
  const Buffer pool =
      *TheBackend().Allocate(n_tables * n_pages * paged.page_bytes);
  std::byte* const first_page = pool.data();
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
  const auto begin = Clock::now();
  int64_t next = 0;
  for (auto _ : state) {
    args.paged.pool = first_page + next * n_pages * paged.page_bytes;
    next = (next + 1) % n_tables;
    if (!TheBackend().Attention(args).ok()) {
      return state.SkipWithError("attention failed");
    }
  }
  const double times =
      static_cast<double>(state.iterations()) / SecondsSince(begin);
  // Each query sees the keys up to its own position.
  const int64_t pairs = n_rows * (n_keys - n_rows) + n_rows * (n_rows + 1) / 2;
  const auto products = static_cast<double>(pairs * n_heads * head_dim * 2);
  const auto bytes = static_cast<double>(n_keys * row_bytes * 2);
  // Few of these products are of integers: there is no share to state.
  state.SetLabel(n_rows == 1
                     ? ReadFigure(times * bytes)
                     : Figure("%.0f GOP/s", 2 * times * products, /*share=*/0));
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
  const auto begin = Clock::now();
  for (auto _ : state) {
    if (!TheBackend()
             .TopK({logits.data(), 1, n, 10, values, ids, &log_sum_exp})
             .ok()) {
      return state.SkipWithError("top-k failed");
    }
  }
  state.SetLabel(Figure(
      "%.1f GB/s of logits",
      static_cast<double>(4 * n * state.iterations()) / SecondsSince(begin),
      /*share=*/0));
}

std::string Name(const char* what, DType dtype, const char* how) {
  const absl::string_view type = DTypeName(dtype);
  return std::string(what) + "/" + std::string(type.data(), type.size()) + how;
}

void RegisterMatMul(DType dtype, Inputs inputs, bool all) {
  const char* how = "";
  if (inputs == Inputs::kFloats) how = "/float";
  if (inputs == Inputs::kMapped) how = "/mapped";
  auto* const product = benchmark::RegisterBenchmark(
      Name("MatMul", dtype, how).c_str(), MatMulOf, dtype, inputs);
  product->ArgNames({"rows", "outputs", "cols"})->UseRealTime();
  for (const int64_t rows : {1, 16, 512}) {
    product->Args({rows, 640, 2048});
    if (!all) continue;
    product->Args({rows, 2048, 768});
    product->Args({rows, 10240, 2560});
  }
}

void Register(bool all) {
  for (const DType dtype :
       {DType::kQ8_0,   DType::kQ4_0,  DType::kQ4_1,   DType::kQ5_0,
        DType::kQ5_1,   DType::kQ4_K,  DType::kQ5_K,   DType::kQ6_K,
        DType::kMxfp4,  DType::kIq4Nl, DType::kIq4Xs,  DType::kQ3_K,
        DType::kQ2_K,   DType::kTq2_0, DType::kTq1_0,  DType::kNvfp4,
        DType::kIq2Xxs, DType::kIq2S,  DType::kIq3Xxs, DType::kIq3S,
        DType::kIq1S,   DType::kF16,   DType::kF32}) {
    const bool is_float = dtype == DType::kF16 || dtype == DType::kF32;
    if (!is_float) RegisterMatMul(dtype, Inputs::kPacked, all);
    if (!is_float) RegisterMatMul(dtype, Inputs::kMapped, all);
    if (all || dtype == DType::kF16) {
      RegisterMatMul(dtype, Inputs::kFloats, all);
    }
  }
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_K}) {
    auto* const experts = benchmark::RegisterBenchmark(
        Name("Experts", dtype, "").c_str(), ExpertsOf, dtype);
    experts->ArgNames({"rows"})->UseManualTime()->Arg(1)->Arg(16)->Arg(512);
  }
  for (const DType dtype : {DType::kF16, DType::kQ8_0, DType::kQ4_0}) {
    auto* const attention = benchmark::RegisterBenchmark(
        Name("Attention", dtype, "").c_str(), AttentionOf, dtype);
    attention->ArgNames({"rows", "keys", "heads", "kv", "dim"})->UseRealTime();
    attention->Args({1, 4096, 9, 3, 64})->Args({512, 512, 9, 3, 64});
    attention->Args({1, 4096, 4, 1, 256})->Args({512, 512, 4, 1, 256});
    attention->Args({1, 100'000, 16, 4, 256});
    if (all) attention->Args({512, 4096, 9, 3, 64});
  }
  RegisterStates();
  benchmark::RegisterBenchmark("TopK", TopKOf)
      ->ArgNames({"vocab"})
      ->Arg(49152)
      ->Arg(262144)
      ->UseRealTime();
}

}  // namespace

int Run(int argc, char** argv) {
  std::vector<char*> args(argv, argv + argc);
  const auto is_all = [](const char* arg) {
    return std::strcmp(arg, "--all") == 0;
  };
  const bool all = std::erase_if(args, is_all) > 0;
  constexpr absl::string_view kPath = "--path=";
  const auto is_path = [&](absl::string_view arg) {
    return absl::StartsWith(arg, kPath);
  };
  for (const absl::string_view arg : args) {
    if (!is_path(arg)) continue;
    const absl::Status status = SetCpuTarget(arg.substr(kPath.size()));
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return EXIT_FAILURE;
    }
  }
  std::erase_if(args, is_path);
  TimeCpuTargets();
  // Before the caller's own, which then count.
  char min_time[] = "--benchmark_min_time=0.05";
  args.insert(args.begin() + 1, min_time);
  int n_args = static_cast<int>(args.size());
  Register(all);
  benchmark::Initialize(&n_args, args.data());
  if (benchmark::ReportUnrecognizedArguments(n_args, args.data())) {
    return EXIT_FAILURE;
  }
  std::printf(
      "%s (%s), %d threads: read bandwidth %.1f GB/s, peak of integer "
      "products %.0f GOP/s, of float products %.0f GOP/s\n",
      CpuBrand().c_str(), CpuTarget().c_str(), ThePool().n_threads(),
      TheMachine().read_bytes_per_s / 1e9,
      2 * TheMachine().products_per_s / 1e9,
      2 * TheMachine().float_products_per_s / 1e9);
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}

}  // namespace plimsoll::kernels

int main(int argc, char** argv) { return plimsoll::kernels::Run(argc, argv); }
