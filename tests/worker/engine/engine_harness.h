// Engines over small files, and sinks that collect what they say.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_HARNESS_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/sanitized.h"
#include "worker/device/compute_device.h"
#include "worker/engine/engine.h"

namespace plimsoll::testing {

// Resident memory of this process.
int64_t ResidentBytes();

// "cpu", "cuda:0", the CPU as a device that says that its memory is its own, or
// the emulated one, whose memory the host cannot touch between operations.
inline constexpr char kFarDevice[] = "far";
inline constexpr char kEmulatedDevice[] = "cuda_emulated";
absl::StatusOr<std::unique_ptr<worker::ComputeDevice>> OpenTestDevice(
    const std::string& name, worker::Precision precision);

struct EngineSetup {
  std::optional<int64_t> n_ctx = 256;
  std::optional<int64_t> max_inference_len = std::nullopt;
  int64_t n_slots = 1;
  int64_t n_ubatch = 512;
  int64_t n_idle_sessions = 0;
  int64_t n_parked = 0;
  int64_t n_draft = 0;
  planner::DraftSource draft_source = planner::DraftSource::kLookup;
  std::optional<int64_t> kv_tokens = std::nullopt;
  bool mmap_weights = false;
  bool host_tables = false;
  // Absent: on a device that the test does not name, what the variable
  // PLIMSOLL_TEST_CPU_EXPERTS says, else none.
  std::optional<int64_t> n_cpu_experts = std::nullopt;
  DType kv_type = DType::kF32;
  std::optional<DType> v_type = std::nullopt;  // type of values, if another
  worker::Precision precision = worker::Precision::kExact;
  // Null: what the variable PLIMSOLL_TEST_DEVICE names, else the CPU; several
  // names, with commas, are devices that share the model's layers.
  const worker::ComputeDevice* device = nullptr;
  // Used instead of `device` if not empty: devices that share the model's
  // layers. `cuts` has the first layer of the second device and of those after
  // it.
  std::vector<const worker::ComputeDevice*> devices = {};
  std::vector<int64_t> cuts = {};
  // Absent: what the variable PLIMSOLL_TEST_PIECE_ROWS says, else the engine's.
  std::optional<int64_t> piece_rows = std::nullopt;
  int n_threads = 2;
  int64_t prefix_cache_bytes = INT64_MAX;
  worker::Preemption preemption = worker::Preemption::kOn;
  int max_queued = worker::EngineOptions::kMaxQueued;
  std::function<absl::Time()> clock = absl::Now;
  std::function<absl::Status(const absl::Status&)> on_device_lost = nullptr;
  worker::LoadFence fence = [](const worker::LoadProgress&) {
    return absl::OkStatus();
  };
};

absl::StatusOr<std::unique_ptr<worker::Engine>> LoadEngine(
    const std::string& path, const EngineSetup& setup);

// Everything one stream said.
struct Generated {
  std::string text;
  std::vector<worker::TokenOutput> tokens;
  std::vector<worker::Eviction> evictions;
  std::vector<float> prompt_logprobs;
  std::vector<bool> prompt_is_best;  // one for each of them
  absl::Status status;
  worker::FinishInfo info;

  std::vector<int32_t> ids() const;
};

// A sink that takes everything, unless told to refuse; thread-safe.
class CollectSink : public worker::TokenSink {
 public:
  CollectSink() : CollectSink(INT64_MAX) {}
  // Refuses output once `limit` tokens were taken, until Accept().
  explicit CollectSink(int64_t limit) : limit_(limit) {}

  bool OnOutput(worker::StepOutput& output) override;
  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override;
  bool Abandoned() const override;

  // Called after each output taken, on the step thread, with the number of
  // tokens so far. Set before Submit.
  std::function<void(int64_t n_tokens)> after_output;

  void Accept();   // takes everything from now on
  void Abandon();  // nobody reads any more
  // Waits until output was refused.
  void AwaitRefusal();
  // Waits for the end, up to a generous limit after which the status is
  // kDeadlineExceeded, and returns everything.
  Generated Await();

 private:
  mutable absl::Mutex mu_;
  int64_t limit_ ABSL_GUARDED_BY(mu_);
  bool has_refused_ ABSL_GUARDED_BY(mu_) = false;
  bool is_abandoned_ ABSL_GUARDED_BY(mu_) = false;
  int n_ends_ ABSL_GUARDED_BY(mu_) = 0;
  Generated result_ ABSL_GUARDED_BY(mu_);
};

// A prompt for any random model.
inline const std::vector<int32_t> kPrompt = {10, 200, 30, 40, 250};

// Greedy, no end tokens, with ten candidates.
worker::GenerateOptions Greedy(std::vector<int32_t> prompt, int64_t max_tokens);
// With so many candidates; -1 asks for no log-probabilities.
worker::GenerateOptions GreedyWithTop(std::vector<int32_t> prompt,
                                      int64_t max_tokens, int top_logprobs);

// Submits and waits. A refusal is the result's status.
Generated Generate(worker::Engine& engine, worker::GenerateOptions options);

// True if tokens, candidates and log-probabilities are the same bits.
bool SameBits(const Generated& a, const Generated& b);

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_ENGINE_HARNESS_H_
