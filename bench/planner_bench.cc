// How fast is the planner? Whole plans, the solver alone and what-if sweeps, in
// process, on shapes as large as models get.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/fleet/what_if.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {
namespace {

// A dense model of 64 layers, or one of 62 with five sliding windows to every
// full layer, with as many tensors as such models have.
ModelShape BigShape(bool has_windows) {
  ModelShape shape = {};
  shape.architecture = has_windows ? "gemma3" : "llama";
  shape.n_layers = has_windows ? 62 : 64;
  shape.model_dim = 5'376;
  shape.n_heads = has_windows ? 32 : 64;
  shape.vocab_size = 262'144;
  shape.n_ctx_train = 131'072;
  shape.tied_output = true;
  const auto add = [&](int64_t cols, int64_t rows) {
    const bool is_vector = rows == 1;
    shape.weights.push_back({absl::StrCat("w", shape.weights.size()),
                             is_vector ? DType::kF32 : DType::kQ4_K, cols, rows,
                             is_vector, 0, 0});
  };
  const int64_t d = shape.model_dim;
  const int64_t q = shape.n_heads * 128;
  const int64_t kv = 16 * 128;
  const int64_t ffn = 21'504;
  add(d, shape.vocab_size);
  add(d, 1);
  for (int64_t il = 0; il < shape.n_layers; ++il) {
    const int64_t window = has_windows && il % 6 != 5 ? 1'024 : 0;
    shape.layers.push_back({16, 128, ffn, window, il});
    for (int64_t rows : {int64_t{1}, int64_t{1}, q, kv, kv, ffn, ffn}) {
      add(d, rows);
    }
    add(128, 1);
    add(128, 1);
    add(q, d);
    add(ffn, d);
  }
  shape.vocab = {"llama", shape.vocab_size, 8 * shape.vocab_size, 0, 0};
  return shape;
}

int64_t Budget(int64_t gib) { return gib << 30; }

void Check(const absl::Status& status, benchmark::State& state) {
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

void PlanWithAutoContext(benchmark::State& state) {
  const ModelShape shape = BigShape(state.range(0) != 0);
  DeviceProfile profile = CommittedCpuProfile();
  profile.allocation = static_cast<AllocationRule>(state.range(2));
  for (auto _ : state) {
    auto plan = Layout(shape, PlanOptions(), profile, Budget(state.range(1)));
    Check(plan.status(), state);
    benchmark::DoNotOptimize(plan);
  }
}
// Budgets with which nothing fits, or the solver stops somewhere in the middle
// or near the end.
BENCHMARK(PlanWithAutoContext)
    ->ArgNames({"windows", "GiB", "rule"})
    ->ArgsProduct({{0, 1}, {8, 24, 64}, {0, 1, 2}});

void PlanWithGivenContext(benchmark::State& state) {
  const ModelShape shape = BigShape(true);
  const DeviceProfile profile = CommittedCpuProfile();
  PlanOptions options;
  options.n_ctx = 4'096;
  for (auto _ : state) {
    auto plan = Layout(shape, options, profile, Budget(64));
    Check(plan.status(), state);
    benchmark::DoNotOptimize(plan);
  }
}
BENCHMARK(PlanWithGivenContext);

// 100,000 points: half of their contexts are solved.
void WhatIfOf100000Points(benchmark::State& state) {
  const ModelShape shape = BigShape(state.range(0) != 0);
  for (auto _ : state) {
    WhatIfAxes axes;
    for (int64_t gib = 1; gib <= 25; ++gib) {
      axes.devices.push_back({CommittedCpuProfile(), Budget(3 * gib)});
    }
    axes.weights = {std::nullopt, DType::kQ4_K, DType::kQ8_0, DType::kF16};
    axes.kv = {{DType::kF16, DType::kF16},
               {DType::kQ8_0, DType::kQ8_0},
               {DType::kQ8_0, DType::kQ4_0},
               {DType::kF32, DType::kF32}};
    axes.n_ubatch = {64, 128, 256, 512, 1'024};
    axes.n_slots = {1, 2, 4, 8, 16};
    axes.n_ctx = {4'096,  std::nullopt, 8'192,  std::nullopt,
                  16'384, std::nullopt, 32'768, std::nullopt,
                  65'536, std::nullopt};
    auto what_if = WhatIf::Create(shape, PlanOptions(), std::move(axes));
    Check(what_if.status(), state);
    if (!what_if.ok()) return;
    while (!what_if->done()) {
      auto points = what_if->Next(512);
      Check(points.status(), state);
      benchmark::DoNotOptimize(points);
    }
    benchmark::DoNotOptimize(what_if->Frontier());
    state.SetItemsProcessed(state.items_processed() + what_if->n_points());
  }
}
BENCHMARK(WhatIfOf100000Points)
    ->ArgName("windows")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll::planner

BENCHMARK_MAIN();
