#include "tests/worker/engine/engine_harness.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "tests/worker/device/hooked_device.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/graph/decoder/runnable.h"
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
#include "kernels/cuda/emulated_backend.h"
#include "tests/worker/device/guarded_memory.h"
#endif

namespace plimsoll::testing {
namespace {

// Only ever reached by a stream that hangs.
constexpr absl::Duration kPatience = absl::Minutes(5);
constexpr int64_t kPlenty = int64_t{1} << 40;

using Devices = std::vector<const worker::ComputeDevice*>;

// Prompts and decoding share their kernels, and so their bits, if
// PLIMSOLL_TEST_SAME_BITS is set.
worker::Precision TestPrecision() {
  return std::getenv("PLIMSOLL_TEST_SAME_BITS") != nullptr
             ? worker::Precision::kInvariant
             : worker::Precision::kDefault;
}

// The number that a variable has; nothing if it has none.
std::optional<int64_t> TestNumber(const char* variable) {
  const char* const text = std::getenv(variable);
  int64_t n = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &n)) return std::nullopt;
  return n;
}

absl::StatusOr<Devices> OpenDevices(absl::string_view names) {
  Devices devices;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    ASSIGN_OR_RETURN(auto device,
                     OpenTestDevice(std::string(name), TestPrecision()));
    devices.push_back(device.release());  // until the end of the process
  }
  return devices;
}

// What tests run on that name no device.
absl::StatusOr<Devices> DefaultDevices() {
  static const auto* const devices = new absl::StatusOr<Devices>([] {
    const char* const names = std::getenv("PLIMSOLL_TEST_DEVICE");
    return OpenDevices(names != nullptr ? names : "cpu");
  }());
  return *devices;
}

// Layers in as many parts as there are devices, nearly equal ones, or fewer
// where the model cannot be cut.
std::vector<int64_t> EvenCuts(const planner::ModelShape& shape,
                              size_t n_parts) {
  std::vector<int64_t> cuts;
  for (size_t i = 1; i < n_parts; ++i) {
    const int64_t cut = shape.n_layers * static_cast<int64_t>(i) /
                        static_cast<int64_t>(n_parts);
    const auto rest = planner::SliceLayers(shape, cut, shape.n_layers - cut);
    if (rest.ok() && worker::CheckArchitecture(*rest).ok()) cuts.push_back(cut);
  }
  return cuts;
}

// Each part planned for the memory of its device.
absl::StatusOr<std::vector<worker::EnginePart>> PlanParts(
    const planner::ModelShape& shape, const planner::LoadOptions& load,
    const Devices& devices, std::vector<int64_t> cuts) {
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(shape.n_layers);
  std::vector<worker::EnginePart> parts;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int64_t n = cuts[i + 1] - cuts[i];
    ASSIGN_OR_RETURN(const planner::ModelShape slice,
                     planner::SliceLayers(shape, cuts[i], n));
    const worker::ComputeDevice* device = devices[i % devices.size()];
    ASSIGN_OR_RETURN(
        planner::MemoryPlan plan,
        planner::Layout(slice, {load}, device->Profile(), kPlenty));
    parts.push_back({device, cuts[i], n, std::move(plan)});
  }
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<worker::ComputeDevice>> OpenTestDevice(
    const std::string& name, worker::Precision precision) {
  const kernels::CudaOptions options = worker::CudaOptionsFor(precision);
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  if (name == kEmulatedDevice) {
    return worker::OpenAccelerator(
        [options]() -> absl::StatusOr<std::unique_ptr<kernels::Backend>> {
          ASSIGN_OR_RETURN(auto backend,
                           kernels::NewEmulatedCudaBackend(options));
          return std::make_unique<HookedBackend>(std::move(backend),
                                                 GuardedMemory::Hooks());
        },
        kernels::ReadEmulatedCudaMemory);
  }
#endif
  if (name == kFarDevice) return std::make_unique<FarDevice>();
  absl::string_view rest = name;
  int index = 0;
  if (absl::ConsumePrefix(&rest, "cuda:") && absl::SimpleAtoi(rest, &index)) {
    return worker::OpenAccelerator(
        [index, options] { return kernels::NewCudaBackend(index, options); },
        [index] { return kernels::ReadCudaMemory(index); });
  }
  return worker::OpenComputeDevice(name);
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

absl::StatusOr<std::unique_ptr<worker::Engine>> LoadEngine(
    const std::string& path, const EngineSetup& setup) {
  ASSIGN_OR_RETURN(const auto file, worker::ModelFile::Open(path));
  planner::LoadOptions load;
  load.n_ctx = setup.n_ctx;
  load.max_inference_len = setup.max_inference_len;
  load.n_slots = setup.n_slots;
  load.n_ubatch = setup.n_ubatch;
  load.n_idle_sessions = setup.n_idle_sessions;
  load.n_parked = setup.n_parked;
  load.n_draft = setup.n_draft;
  load.draft_source = setup.draft_source;
  load.mmap_weights = setup.mmap_weights;
  load.host_tables = setup.host_tables;
  const bool is_default = setup.devices.empty() && setup.device == nullptr;
  load.n_cpu_experts = setup.n_cpu_experts.value_or(
      is_default ? TestNumber("PLIMSOLL_TEST_CPU_EXPERTS").value_or(0) : 0);
  load.kv_tokens = setup.kv_tokens;
  load.k_type = setup.kv_type;
  load.v_type = setup.v_type.value_or(setup.kv_type);
  Devices devices = setup.devices;
  if (devices.empty() && setup.device != nullptr) devices = {setup.device};
  if (devices.empty()) {
    ASSIGN_OR_RETURN(devices, DefaultDevices());
  }
  std::vector<int64_t> cuts = setup.cuts;
  if (cuts.empty()) {
    const auto n_layers = static_cast<size_t>(file->shape().n_layers);
    cuts = EvenCuts(file->shape(), std::min(devices.size(), n_layers));
  }
  worker::EngineOptions options;
  options.precision = setup.precision;
  options.n_threads = setup.n_threads;
  options.max_queued = setup.max_queued;
  options.preemption = setup.preemption;
  options.piece_rows = setup.piece_rows;
  if (!setup.piece_rows) {
    options.piece_rows = TestNumber("PLIMSOLL_TEST_PIECE_ROWS");
  }
  options.prefix_cache_bytes = setup.prefix_cache_bytes;
  options.clock = setup.clock;
  options.on_device_lost = setup.on_device_lost;
  if (cuts.empty()) {
    options.device = devices.front();
    ASSIGN_OR_RETURN(const planner::MemoryPlan plan,
                     planner::Layout(file->shape(), {load},
                                     options.device->Profile(), kPlenty));
    return worker::Engine::Load(*file, plan, options, setup.fence);
  }
  ASSIGN_OR_RETURN(std::vector<worker::EnginePart> parts,
                   PlanParts(file->shape(), load, devices, std::move(cuts)));
  return worker::Engine::Load(*file, std::move(parts), options, setup.fence);
}

std::vector<int32_t> Generated::ids() const {
  std::vector<int32_t> ids;
  for (const worker::TokenOutput& token : tokens) ids.push_back(token.id);
  return ids;
}

bool CollectSink::OnOutput(worker::StepOutput& output) {
  int64_t n_tokens = 0;
  {
    absl::MutexLock lock(&mu_);
    EXPECT_EQ(n_ends_, 0) << "output after the end";
    if (static_cast<int64_t>(result_.tokens.size()) >= limit_) {
      has_refused_ = true;
      return false;
    }
    result_.text += output.text;
    for (worker::TokenOutput& token : output.tokens) {
      result_.tokens.push_back(std::move(token));
    }
    for (const worker::Eviction& eviction : output.evictions) {
      result_.evictions.push_back(eviction);
    }
    for (const worker::PromptScore& score : output.prompt_scores) {
      result_.prompt_logprobs.push_back(score.logprob);
      result_.prompt_is_best.push_back(score.is_best);
    }
    n_tokens = static_cast<int64_t>(result_.tokens.size());
  }
  if (after_output) after_output(n_tokens);
  return true;
}

void CollectSink::OnEnd(const absl::Status& status,
                        const worker::FinishInfo& info) {
  absl::MutexLock lock(&mu_);
  EXPECT_EQ(n_ends_, 0) << "ended twice";
  ++n_ends_;
  result_.status = status;
  result_.info = info;
}

bool CollectSink::Abandoned() const {
  absl::MutexLock lock(&mu_);
  return is_abandoned_;
}

void CollectSink::Accept() {
  absl::MutexLock lock(&mu_);
  limit_ = INT64_MAX;
}

void CollectSink::Abandon() {
  absl::MutexLock lock(&mu_);
  is_abandoned_ = true;
}

void CollectSink::AwaitRefusal() {
  absl::MutexLock lock(&mu_);
  const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return has_refused_;
  };
  EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&ready), kPatience));
}

Generated CollectSink::Await() {
  absl::MutexLock lock(&mu_);
  const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return n_ends_ > 0;
  };
  if (!mu_.AwaitWithTimeout(absl::Condition(&ready), kPatience)) {
    ADD_FAILURE() << "the stream did not end";
    result_.status = absl::DeadlineExceededError("the test's patience");
  }
  return result_;
}

worker::GenerateOptions Greedy(std::vector<int32_t> prompt,
                               int64_t max_tokens) {
  return GreedyWithTop(std::move(prompt), max_tokens, 10);
}

worker::GenerateOptions GreedyWithTop(std::vector<int32_t> prompt,
                                      int64_t max_tokens, int top_logprobs) {
  worker::GenerateOptions options;
  options.prompt_ids = std::move(prompt);
  options.max_tokens = max_tokens;
  options.sampling.temperature = 0;
  options.ignore_eos = true;
  options.top_logprobs = top_logprobs;
  return options;
}

Generated Generate(worker::Engine& engine, worker::GenerateOptions options) {
  auto sink = std::make_shared<CollectSink>();
  const absl::Status status = engine.Submit(std::move(options), sink);
  if (!status.ok()) {
    Generated refused;
    refused.status = status;
    return refused;
  }
  return sink->Await();
}

bool SameBits(const Generated& a, const Generated& b) {
  const auto same = [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  };
  if (a.tokens.size() != b.tokens.size() || a.text != b.text) return false;
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    const worker::TokenOutput& x = a.tokens[i];
    const worker::TokenOutput& y = b.tokens[i];
    if (x.id != y.id || !same(x.logprob, y.logprob) ||
        x.candidates.size() != y.candidates.size()) {
      return false;
    }
    for (size_t j = 0; j < x.candidates.size(); ++j) {
      if (x.candidates[j].id != y.candidates[j].id ||
          !same(x.candidates[j].logprob, y.candidates[j].logprob)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace plimsoll::testing
