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
// calls (call by call, for a profiler). Exits with 77 if there is no device,
// and with 2 if a named part does not exist.
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
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "bench/cuda/attention.h"
#include "bench/cuda/model.h"
#include "bench/cuda/product.h"
#include "bench/cuda/step.h"
#include "bench/cuda/timing.h"
#include "bench/must.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_rates.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitNoDevice = 77;
// Unless some are named, the parts before the last three run.
constexpr absl::string_view kParts[] = {"attention", "rest",    "steps",
                                        "few",       "prefill", "decode",
                                        "step",      "row",     "calls"};
constexpr size_t kDefaultParts = std::size(kParts) - 3;

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
        Product product(backend, {dtype, shape.rows, shape.cols, n_rows});
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
        Product product(*backend, {dtype, kFfnDim, kModelDim, n_rows});
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
        Product product(*owner, {dtype, shape.rows, shape.cols, n_rows});
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

// A decode step of the model, of so many of its layers.
StepShape StepOf(int64_t n_layers) {
  return {.dtype = DType::kQ4_0,
          .n_layers = n_layers,
          .n_heads = kHeads,
          .n_kv_heads = kKvHeads,
          .head_dim = kHeadDim,
          .model_dim = kModelDim,
          .ffn_dim = kFfnDim,
          .vocab_size = kVocabulary};
}

// Whole decode steps of the model.
void BenchSteps(int device, const Rates& rates,
                std::span<const int64_t> row_counts) {
  const StepShape shape = StepOf(kLayers);
  constexpr int64_t kContext = 1024;
  std::array<double, std::size(kStepWays)> alone = {};  // tokens/s of one row
  for (const int64_t n_rows : row_counts) {
    const auto owner = BackendFor(device, kStepWays[0]);
    DecodeStep step(*owner, shape, n_rows, kContext);
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

// Steps of one row and of 32 as a profiler sees them best.
void RunCalls(int device) {
  const StepShape shape = StepOf(3);
  const auto backend = BackendFor(device, kStepWays[0]);
  for (const int64_t n_rows : {1, 8, 32, 512}) {
    DecodeStep step(*backend, shape, n_rows, 1024);
    for (int i = 0; i < 3; ++i) Must(step.Run(false));
  }
}

// Returns whether a part of `parts` does not exist, and says so.
bool HasUnknown(std::span<const absl::string_view> parts) {
  for (const absl::string_view part : parts) {
    if (std::ranges::find(kParts, part) != std::end(kParts)) continue;
    const std::string name(part);
    std::fprintf(stderr, "there is no part '%s'; the parts are %s\n",
                 name.c_str(), absl::StrJoin(kParts, ", ").c_str());
    return true;
  }
  return false;
}

int Run(int device, std::span<const absl::string_view> parts) {
  if (HasUnknown(parts)) return kExitUsage;
  if (parts.empty()) parts = std::span(kParts).first(kDefaultParts);
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
  const std::vector<absl::string_view> parts(argv + std::min(argc, 2),
                                             argv + argc);
  return plimsoll::kernels::Run(argc > 1 ? std::atoi(argv[1]) : 0, parts);
}
