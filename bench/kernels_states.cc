#include "bench/kernels_states.h"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "bench/kernel_rates.h"
#include "kernels/backend.h"
#include "kernels/recurrent.h"

namespace plimsoll::kernels {
namespace {

std::vector<float> RandomFloats(int64_t n) {
  std::mt19937 random(1);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    value = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  return values;
}

// States of one sequence in each step. With one row the state is read from
// memory and not from a cache, as in a model, whose weights are read in
// between: enough sequences take turns.
class Sequences {
 public:
  Sequences(int64_t n_rows, int64_t floats)
      : n_(n_rows == 1 ? kMemoryBytes / (4 * floats) + 1 : 1),
        floats_(floats),
        states_(*TheBackend().Allocate(n_ * floats * 4)),
        destinations_(static_cast<size_t>(n_rows), kNoState) {
    segment_ = {.first_row = 0, .n_rows = n_rows, .source = 0};
  }
  // The states of a step of the next sequence, which change in their place.
  StepStates Next() {
    segment_.source = static_cast<int32_t>((segment_.source + 1) % n_);
    destinations_.back() = segment_.source;
    return {.data = reinterpret_cast<float*>(states_.data()),
            .stride = floats_,
            .n_states = n_,
            .segments = &segment_,
            .n_segments = 1,
            .destinations = destinations_.data()};
  }

 private:
  int64_t n_;
  int64_t floats_;
  Buffer states_;
  StateSegment segment_;
  std::vector<int32_t> destinations_;
};

absl::Status RunStep(const CausalConvArgs& args) {
  return TheBackend().CausalConv(args);
}
absl::Status RunStep(const StateScanArgs& args) {
  return TheBackend().StateScan(args);
}

// Runs steps of `args` and returns how many there were in a second.
template <class Args>
double StepRate(benchmark::State& state, Args args) {
  Sequences sequences(args.n_rows, args.StateFloats());
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    args.states = sequences.Next();
    if (!RunStep(args).ok()) {
      state.SkipWithError("the step failed");
      return 0;
    }
  }
  return static_cast<double>(state.iterations()) / SecondsSince(begin);
}

// The convolution of a Qwen 3.5 of 9B.
void ConvOf(benchmark::State& state) {
  const int64_t n_rows = state.range(0);
  constexpr int64_t kChannels = 8192;
  constexpr int64_t kWidth = 4;
  const std::vector<float> x = RandomFloats(n_rows * kChannels);
  const std::vector<float> weight = RandomFloats(kChannels * kWidth);
  std::vector<float> out(x.size());
  const CausalConvArgs args = {.x = x.data(),
                               .stride = kChannels,
                               .weight = weight.data(),
                               .has_silu = true,
                               .out = out.data(),
                               .n_rows = n_rows,
                               .channels = kChannels,
                               .width = kWidth};
  const double rate = StepRate(state, args);
  // Each step reads its rows and the weights, writes as many rows, and reads
  // and writes a state.
  const int64_t floats =
      2 * n_rows * kChannels + kWidth * kChannels + 2 * args.StateFloats();
  state.SetLabel(ReadFigure(rate * static_cast<double>(4 * floats)));
}

struct ScanShape {
  bool has_delta;
  int64_t n_heads, n_key_heads, key_dim, value_dim;
};
constexpr ScanShape kQwen35 = {true, 32, 16, 128, 128};    // 9B
constexpr ScanShape kGranite4 = {false, 128, 1, 128, 64};  // H-Small

void ScanOf(benchmark::State& state, const ScanShape& shape) {
  const int64_t n_rows = state.range(0);
  const int64_t keys = shape.n_key_heads * shape.key_dim;
  const int64_t stride = 2 * keys + shape.n_heads * shape.value_dim;
  const std::vector<float> rows = RandomFloats(n_rows * stride);
  const std::vector<float> gates = RandomFloats(n_rows * 2 * shape.n_heads);
  const std::vector<float> rate(static_cast<size_t>(shape.n_heads), -0.1f);
  std::vector<float> out(
      static_cast<size_t>(n_rows * shape.n_heads * shape.value_dim));
  const StateScanArgs args = {
      .q = rows.data(),
      .k = rows.data() + keys,
      .v = rows.data() + 2 * keys,
      .stride = stride,
      .dt = gates.data(),
      .beta = shape.has_delta ? gates.data() + shape.n_heads : nullptr,
      .gate_stride = 2 * shape.n_heads,
      .gate_group_stride = shape.n_heads / shape.n_key_heads,
      .dt_bias = rate.data(),
      .rate = rate.data(),
      .norm_eps = 1e-6f,
      .out = out.data(),
      .n_rows = n_rows,
      .n_heads = shape.n_heads,
      .n_key_heads = shape.n_key_heads,
      .key_dim = shape.key_dim,
      .value_dim = shape.value_dim};
  const double times = StepRate(state, args);
  // One row reads and writes a state.
  const auto bytes = static_cast<double>(2 * 4 * args.StateFloats());
  // An element of a state is multiplied by the decay, which takes as long as a
  // multiply-add. What the row writes is added to it, and it is added to what
  // the row reads, once or with a delta twice.
  const int64_t per_element = shape.has_delta ? 4 : 3;
  const auto products =
      static_cast<double>(n_rows * per_element * args.StateFloats());
  state.SetLabel(n_rows == 1 ? ReadFigure(times * bytes)
                             : FloatProductFigure(times * products));
}

}  // namespace

void RegisterStates() {
  const auto add = [](benchmark::internal::Benchmark* added) {
    added->ArgNames({"rows"})->Arg(1)->Arg(512)->UseRealTime();
  };
  add(benchmark::RegisterBenchmark("CausalConv", ConvOf));
  add(benchmark::RegisterBenchmark("StateScan/delta", ScanOf, kQwen35));
  add(benchmark::RegisterBenchmark("StateScan/mamba2", ScanOf, kGranite4));
}

}  // namespace plimsoll::kernels
