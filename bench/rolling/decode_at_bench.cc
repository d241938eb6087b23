// How fast does one sequence decode far behind the beginning of its context,
// beside what the bytes that a step reads predict from a short context? The
// context is not computed: its keys and values are zeros, which take as long to
// read.
//
// usage: decode_at_bench MODEL [POSITION...] (100 8000 100000)
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "bench/must.h"
#include "planner/fleet/bounds.h"
#include "planner/layout/memory_plan.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/loader.h"

namespace plimsoll {
namespace {

using bench::Must;

constexpr int64_t kSteps = 24;  // timed ones; the median counts
constexpr int64_t kWarmUp = 4;
constexpr int64_t kPlenty = int64_t{1} << 50;

// The bytes of weights, states, keys and values that a step reads.
double StepBytes(const planner::ModelShape& shape, int64_t position) {
  const planner::DecodeBound bound =
      Must(planner::BoundDecode(shape, {.n_ctx = position, .n_sequences = 1},
                                /*bandwidth_bytes_per_s=*/1));
  int64_t states = 0;
  for (const planner::LayerShape& layer : shape.layers) {
    if (!layer.IsRecurrent()) continue;
    states += shape.recurrent.StateFloats() * planner::kFloatBytes;
  }
  return static_cast<double>(bound.weight_bytes + bound.kv_bytes + states);
}

// The median time of a step at a position, in seconds.
double StepSeconds(worker::EngineResources& loaded, int64_t position) {
  worker::KvCache& cache = *loaded.cache;
  cache.Begin(/*slot=*/0, /*prefix_tokens=*/0);
  std::vector<double> seconds;
  for (int64_t i = 0; i < kWarmUp + kSteps; ++i, ++position) {
    Must(cache.Extend(/*slot=*/0, position + 1));
    worker::StepBatch batch;
    batch.tokens = {1};
    batch.positions = {position};
    batch.prefix_positions = {position};
    batch.sequences = {
        {.slot = 0, .first_row = 0, .n_rows = 1, .first_position = position}};
    batch.sampled_rows = {0};
    batch.only_decodes = true;
    const absl::Time begin = absl::Now();
    Must(loaded.model->Step(batch));
    if (i >= kWarmUp) {
      seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
    }
  }
  cache.Clear(/*slot=*/0);
  std::ranges::nth_element(seconds, seconds.begin() + kSteps / 2);
  return seconds[kSteps / 2];
}

void Run(const std::string& path, const std::vector<int64_t>& positions) {
  auto file = Must(worker::ModelFile::Open(path));
  planner::LoadOptions load;
  load.n_ctx = *std::ranges::max_element(positions) + kWarmUp + kSteps + 1;
  const planner::MemoryPlan plan = Must(planner::Layout(
      file->shape(), {load}, worker::LocalCpu().Profile(), kPlenty));
  const worker::LoadFence fence = [](const worker::LoadProgress&) {
    return absl::OkStatus();
  };
  worker::EngineResources loaded =
      Must(worker::EngineLoader(*file, {}, fence)
               .Load({{nullptr, 0, file->shape().n_layers, plan}}));
  std::printf("position   ms a step   MB read   of what bytes predict\n");
  double rate = 0;  // bytes a second at the first position
  for (const int64_t position : positions) {
    const double seconds = StepSeconds(loaded, position);
    const double bytes = StepBytes(file->shape(), position);
    if (rate == 0) rate = bytes / seconds;
    std::printf("%8ld   %9.2f   %7.1f   %.2f\n", static_cast<long>(position),
                seconds * 1e3, bytes / 1e6, bytes / rate / seconds);
  }
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: decode_at_bench MODEL [POSITION...]\n");
    return 2;
  }
  std::vector<int64_t> positions;
  for (int i = 2; i < argc; ++i) {
    int64_t position = 0;
    if (!absl::SimpleAtoi(argv[i], &position) || position < 1) {
      std::fprintf(stderr, "error: %s is no position\n", argv[i]);
      return 2;
    }
    positions.push_back(position);
  }
  if (positions.empty()) positions = {100, 8'000, 100'000};
  plimsoll::Run(argv[1], positions);
}
