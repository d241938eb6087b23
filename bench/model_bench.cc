// How fast does a 12B model run on a device, and does it take what its plan
// says? Writes a model of the shape with random weights, unless the file is
// there, loads it, and measures prefill and decode. Needs neither a network nor
// a downloaded model.
//
// usage: model_bench [--device cuda:0] [--file PATH] [--type q4_0|q8_0]
//                    [--layers 48] [--prompt 4096] [--tokens 128]
//                    [--memory-mib 4096] [--n-ubatch 512] [--piece-rows N]
//                    [--overlap on|off] [--wgmma-attention on|off]
// Several devices with commas, such as cuda:0,cpu, share the model's layers:
// each but the last takes as many as fit in that memory. They get steps of
// n-ubatch rows in pieces of N, the engine's own number unless given; as many
// as a step has are one piece. Without overlap kernels of a GPU wait for the
// end of those before. Exits with 77 if there is no such device.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "bench/must.h"
#include "bench/synthetic_gguf.h"
#include "planner/fleet/bounds.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine.h"
#ifdef PLIMSOLL_BENCH_CUDA
#include "kernels/cuda/device_rates.h"
#endif

namespace plimsoll {
namespace {

using bench::Must;

constexpr int kExitNoDevice = 77;
constexpr int64_t kShortPrompt = 16;
constexpr int64_t kSmallBudget = int64_t{12} << 30;
constexpr int64_t kPlenty = int64_t{1} << 50;
constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Flags {
  std::string device = "cuda:0";
  std::string file;
  DType type = DType::kQ4_0;
  int64_t layers = 48;
  int64_t prompt = 4'096;
  int64_t tokens = 128;
  int64_t memory_mib = 4'096;
  int64_t n_ubatch = 512;
  int64_t piece_rows = 0;  // the engine's
  bool overlaps = kernels::CudaOptions().programmatic_launches;
  bool wgmma_attention = kernels::CudaOptions().wgmma_attention;
};

// When the tokens of several streams came.
class Clocked final : public worker::TokenSink {
 public:
  bool OnOutput(worker::StepOutput& output) override {
    absl::MutexLock lock(&mu_);
    if (output.tokens.empty()) return true;
    times_.insert(times_.end(), output.tokens.size(), absl::Now());
    return true;
  }
  void OnEnd(const absl::Status& status, const worker::FinishInfo&) override {
    absl::MutexLock lock(&mu_);
    end_ = status;
  }
  bool Abandoned() const override { return false; }

  // Waits for the end and returns when each token came.
  std::vector<absl::Time> Await() {
    absl::MutexLock lock(&mu_);
    const auto has_ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return end_.has_value();
    };
    mu_.Await(absl::Condition(&has_ended));
    Must(*end_);
    return times_;
  }

 private:
  absl::Mutex mu_;
  std::vector<absl::Time> times_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

worker::GenerateOptions Request(int64_t n_prompt, int64_t n_tokens,
                                uint32_t seed) {
  std::mt19937 random(seed);
  worker::GenerateOptions options;
  for (int64_t i = 0; i < n_prompt; ++i) {
    options.prompt_ids.push_back(
        static_cast<int32_t>(1'000 + random() % 9'000));
  }
  options.max_tokens = n_tokens;
  options.sampling.temperature = 0;
  options.ignore_eos = true;
  return options;
}

struct Loaded {
  std::unique_ptr<worker::ModelFile> file;
  std::unique_ptr<worker::Engine> engine;
};

// Loads within `budget`, and prints the plan beside what the device says.
Loaded Load(const Flags& flags, const worker::ComputeDevice& device,
            const planner::LoadOptions& options, int64_t budget) {
  Loaded loaded;
  loaded.file = Must(worker::ModelFile::Open(flags.file));
  const planner::MemoryPlan plan = Must(planner::Layout(
      loaded.file->shape(), {options}, device.Profile(), budget));
  const absl::Time begin = absl::Now();
  absl::Time weights_begin = begin;
  double weights_seconds = 0;
  int64_t weight_bytes = 0;
  const auto fence = [&](const worker::LoadProgress& at) {
    if (at.phase == "weights") {
      if (weight_bytes == 0) weights_begin = absl::Now();
      weight_bytes = at.bytes_done;
    }
    if (at.phase == "ready") {
      weights_seconds = absl::ToDoubleSeconds(absl::Now() - weights_begin);
    }
    return absl::OkStatus();
  };
  loaded.engine = Must(worker::Engine::Load(
      *loaded.file, plan, {.device = &device, .clock = absl::Now}, fence));
  const worker::MemoryReport memory = loaded.engine->Memory();
  std::printf(
      "load: context %lld x %lld slots; plan %.3f GiB of which %.3f "
      "the process's own, arena %.3f GiB",
      static_cast<long long>(plan.n_ctx),
      static_cast<long long>(plan.options.n_slots),
      static_cast<double>(plan.total_bytes) / kGiB,
      static_cast<double>(plan.FindRegion("runtime")->bytes) / kGiB,
      static_cast<double>(memory.allocated_bytes) / kGiB);
  if (memory.device_taken_bytes) {
    std::printf(", the device has %.3f GiB less",
                static_cast<double>(*memory.device_taken_bytes) / kGiB);
  }
  std::printf("; %.1f s, weights at %.2f GB/s\n",
              absl::ToDoubleSeconds(absl::Now() - begin),
              static_cast<double>(weight_bytes) / weights_seconds / 1e9);
  return loaded;
}

using Devices = std::vector<std::unique_ptr<worker::ComputeDevice>>;

// Places the layers on the devices, loads them, and prints which lie where.
Loaded LoadSplit(const Flags& flags, const Devices& devices,
                 const planner::LoadOptions& options) {
  Loaded loaded;
  loaded.file = Must(worker::ModelFile::Open(flags.file));
  std::vector<planner::SplitDevice> places;
  for (const auto& device : devices) {
    const bool is_last = device == devices.back();
    places.push_back(
        {device->Profile(), is_last ? kPlenty : flags.memory_mib << 20});
  }
  const planner::SplitPlan split =
      Must(planner::SplitLayers(loaded.file->shape(), {options}, places));
  std::vector<worker::EnginePart> parts;
  for (const planner::SplitPart& part : split.parts) {
    const auto index = static_cast<size_t>(part.device);
    std::printf("part: layers %lld to %lld on %s, plan %.3f GiB\n",
                static_cast<long long>(part.first_layer),
                static_cast<long long>(part.first_layer + part.n_layers - 1),
                places[index].profile.id.c_str(),
                static_cast<double>(part.plan.total_bytes) / kGiB);
    parts.push_back(
        {devices[index].get(), part.first_layer, part.n_layers, part.plan});
  }
  worker::EngineOptions engine = {.clock = absl::Now};
  if (flags.piece_rows > 0) engine.piece_rows = flags.piece_rows;
  const absl::Time begin = absl::Now();
  loaded.engine = Must(worker::Engine::Load(
      *loaded.file, std::move(parts), engine,
      [](const worker::LoadProgress&) { return absl::OkStatus(); }));
  const worker::MemoryReport memory = loaded.engine->Memory();
  std::printf("load: arenas %.3f GiB, planned %.3f; %.1f s\n",
              static_cast<double>(memory.allocated_bytes) / kGiB,
              static_cast<double>(memory.planned_bytes) / kGiB,
              absl::ToDoubleSeconds(absl::Now() - begin));
  return loaded;
}

// Tokens per second of `n` streams after the last one's first token.
double DecodeRate(worker::Engine& engine, int64_t n, int64_t n_tokens) {
  std::vector<std::shared_ptr<Clocked>> sinks;
  for (int64_t i = 0; i < n; ++i) {
    sinks.push_back(std::make_shared<Clocked>());
    Must(
        engine.Submit(Request(kShortPrompt, n_tokens, static_cast<uint32_t>(i)),
                      sinks.back()));
  }
  // While all of them decode: from the last one's first token to the first
  // one's last. Before, prompts of some share the steps.
  std::vector<std::vector<absl::Time>> times;
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
  for (const auto& sink : sinks) {
    times.push_back(sink->Await());
    begin = std::max(begin, times.back().front());
    end = std::min(end, times.back().back());
  }
  if (end <= begin) return 0;
  int64_t tokens = 0;
  for (const auto& of_one : times) {
    tokens += std::ranges::count_if(
        of_one, [&](absl::Time at) { return begin < at && at <= end; });
  }
  return static_cast<double>(tokens) / absl::ToDoubleSeconds(end - begin);
}

double PrefillRate(worker::Engine& engine, int64_t n_prompt, uint32_t seed) {
  const auto sink = std::make_shared<Clocked>();
  const absl::Time begin = absl::Now();
  Must(engine.Submit(Request(n_prompt, 1, seed), sink));
  return static_cast<double>(n_prompt) /
         absl::ToDoubleSeconds(sink->Await().front() - begin);
}

// Bytes that copies in the device's memory read and write per second; 0 if
// that is not known.
double CopyRate([[maybe_unused]] absl::string_view device) {
#ifdef PLIMSOLL_BENCH_CUDA
  int index = 0;
  if (absl::ConsumePrefix(&device, "cuda:") &&
      absl::SimpleAtoi(device, &index)) {
    return Must(kernels::cuda::CopyBytesPerSecond(index, int64_t{1} << 30));
  }
#endif
  return 0;
}

void Measure(const Flags& flags, const worker::ComputeDevice& device) {
  const double copy_rate = CopyRate(flags.device);
  const auto shape = Must(worker::ModelFile::Open(flags.file))->shape();
  const auto step_bytes =
      static_cast<double>(Must(planner::WeightBytesPerStep(shape)));
  std::printf("weights read in a step: %.3f GB; copies: %.0f GB/s\n",
              step_bytes / 1e9, copy_rate / 1e9);
  const auto decode = [&](worker::Engine& engine, int64_t n) {
    (void)DecodeRate(engine, n, 4);
    const double rate = DecodeRate(engine, n, flags.tokens);
    const double steps = rate / static_cast<double>(n);
    std::printf("decode of %2lld: %.1f tokens/s, %.2f ms a step",
                static_cast<long long>(n), rate, 1e3 / steps);
    if (copy_rate > 0) {
      std::printf(", weights at %.0f %% of the copies' rate",
                  100 * steps * step_bytes / copy_rate);
    }
    std::printf("\n");
  };
  {
    planner::LoadOptions options;
    options.n_ctx = flags.prompt + flags.tokens + kShortPrompt;
    const Loaded one = Load(flags, device, options, kPlenty);
    (void)PrefillRate(*one.engine, flags.prompt / 4, 1);
    std::printf("prefill of %lld: %.0f tokens/s\n",
                static_cast<long long>(flags.prompt),
                PrefillRate(*one.engine, flags.prompt, 2));
    decode(*one.engine, 1);
    std::printf("allocations after the load: %lld\n",
                static_cast<long long>(
                    one.engine->Memory().device_allocations_after_load));
  }
  {
    planner::LoadOptions options;
    options.n_slots = 32;
    options.n_ctx = kShortPrompt + flags.tokens;
    const Loaded many = Load(flags, device, options, kPlenty);
    for (const int64_t n : {8, 32}) decode(*many.engine, n);
  }
  if (step_bytes > static_cast<double>(kSmallBudget) - kGiB) return;
  // The longest context within 12 GiB: planned, allocated and used.
  const Loaded small =
      Load(flags, device, planner::LoadOptions(), kSmallBudget);
  std::printf(
      "within 12 GiB: prefill of %lld at %.0f tokens/s\n",
      static_cast<long long>(flags.prompt),
      PrefillRate(*small.engine,
                  std::min(flags.prompt, small.engine->n_ctx() - 1), 3));
}

void MeasureSplit(const Flags& flags, const Devices& devices) {
  planner::LoadOptions options;
  options.n_ctx = flags.prompt + flags.tokens + kShortPrompt;
  options.n_slots = 8;
  options.n_ubatch = flags.n_ubatch;
  const Loaded loaded = LoadSplit(flags, devices, options);
  worker::Engine& engine = *loaded.engine;
  (void)PrefillRate(engine, flags.prompt / 4, 1);
  std::printf("prefill of %lld: %.0f tokens/s\n",
              static_cast<long long>(flags.prompt),
              PrefillRate(engine, flags.prompt, 2));
  for (const int64_t n : {1, 8}) {
    (void)DecodeRate(engine, n, 4);
    std::printf("decode of %2lld: %.1f tokens/s\n", static_cast<long long>(n),
                DecodeRate(engine, n, flags.tokens));
  }
  std::printf(
      "allocations after the load: %lld\n",
      static_cast<long long>(engine.Memory().device_allocations_after_load));
}

int Main(Flags flags) {
  kernels::CudaOptions options;
  options.programmatic_launches = flags.overlaps;
  options.wgmma_attention = flags.wgmma_attention;
  Devices devices;
  for (const absl::string_view name : absl::StrSplit(flags.device, ',')) {
    auto device = worker::OpenComputeDevice(name, options);
    if (absl::IsNotFound(device.status()) ||
        absl::IsUnimplemented(device.status())) {
      std::fprintf(stderr, "SKIPPED: %s\n",
                   std::string(device.status().message()).c_str());
      return kExitNoDevice;
    }
    devices.push_back(Must(std::move(device)));
    const planner::DeviceProfile profile = devices.back()->Profile();
    std::printf("%s: %s, %.2f of %.2f GiB free, runtime %s\n",
                profile.id.c_str(), profile.name.c_str(),
                static_cast<double>(profile.free_bytes) / kGiB,
                static_cast<double>(profile.total_bytes) / kGiB,
                profile.runtime_note.c_str());
  }
  if (flags.file.empty()) {
    flags.file = (std::filesystem::temp_directory_path() /
                  absl::StrCat("synthetic-", flags.layers, "-",
                               std::string(DTypeName(flags.type)), ".gguf"))
                     .string();
  }
  if (!std::filesystem::exists(flags.file)) {
    SyntheticShape shape;
    shape.layers = flags.layers;
    shape.type = flags.type;
    const absl::Time begin = absl::Now();
    Must(WriteSyntheticModel(flags.file, shape, /*seed=*/1));
    std::printf(
        "wrote %s: %.2f GB in %.0f s\n", flags.file.c_str(),
        static_cast<double>(std::filesystem::file_size(flags.file)) / 1e9,
        absl::ToDoubleSeconds(absl::Now() - begin));
  }
  std::fflush(stdout);
  if (devices.size() > 1) {
    MeasureSplit(flags, devices);
  } else {
    Measure(flags, *devices.front());
  }
  return 0;
}

bool Parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    const std::map<std::string, int64_t*> counts = {
        {"--layers", &flags.layers},     {"--prompt", &flags.prompt},
        {"--tokens", &flags.tokens},     {"--memory-mib", &flags.memory_mib},
        {"--n-ubatch", &flags.n_ubatch}, {"--piece-rows", &flags.piece_rows}};
    if (const auto found = counts.find(name); found != counts.end()) {
      if (!absl::SimpleAtoi(value, found->second) || *found->second < 2) {
        return false;
      }
    } else if (name == "--device") {
      flags.device = value;
    } else if (name == "--file") {
      flags.file = value;
    } else if (name == "--type" && (value == "q4_0" || value == "q8_0")) {
      flags.type = value == "q4_0" ? DType::kQ4_0 : DType::kQ8_0;
    } else if (name == "--overlap" && (value == "on" || value == "off")) {
      flags.overlaps = value == "on";
    } else if (name == "--wgmma-attention" &&
               (value == "on" || value == "off")) {
      flags.wgmma_attention = value == "on";
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  plimsoll::Flags flags;
  if (plimsoll::Parse(argc, argv, flags)) return plimsoll::Main(flags);
  std::fprintf(stderr,
               "usage: model_bench [--device cuda:0[,cpu...]] [--file PATH] "
               "[--type q4_0|q8_0] [--layers N] [--prompt N] [--tokens N] "
               "[--memory-mib N] [--n-ubatch N] [--piece-rows N] "
               "[--overlap on|off] [--wgmma-attention on|off]\n");
  return 2;
}
