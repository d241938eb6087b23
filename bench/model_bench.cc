// Prints what a model does on this machine: prefill and decode rates through
// the whole engine, load time and memory, as one JSON object.
#include <cstdio>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "planner/memory_plan.h"
#include "worker/device.h"
#include "worker/engine.h"

namespace plimsoll {
namespace {

struct Flags {
  std::string model;
  int threads = 0;
  int64_t prompt_tokens = 512;
  int64_t decode_tokens = 64;
  int64_t n_ctx = 4096;
  std::vector<int64_t> batches = {1, 4, 16};
  bool exact = false;
};

class CountingSink final : public worker::TokenSink {
 public:
  bool OnOutput(worker::StepOutput&) override { return true; }
  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override {
    status_ = status;
    info_ = info;
    done_.Notify();
  }
  bool Abandoned() const override { return false; }

  absl::StatusOr<worker::FinishInfo> Wait() {
    done_.WaitForNotification();
    if (!status_.ok()) return status_;
    return info_;
  }

 private:
  absl::Status status_;
  worker::FinishInfo info_;
  absl::Notification done_;
};

// Ordinary token ids from a seed; what they say does not change the work.
std::vector<int32_t> RandomPrompt(int64_t n, int32_t vocab_size,
                                  uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(
        1000 + random() % static_cast<uint64_t>(vocab_size - 2000));
  }
  return ids;
}

absl::StatusOr<worker::FinishInfo> RunOne(worker::Engine& engine,
                                          int64_t n_prompt, int64_t n_decode,
                                          uint64_t seed,
                                          std::shared_ptr<CountingSink> sink) {
  worker::GenerateOptions options;
  options.prompt_ids =
      RandomPrompt(n_prompt, engine.tokenizer().vocab_size(), seed);
  options.max_tokens = n_decode;
  options.sampling.temperature = 0;
  options.ignore_eos = true;
  RETURN_IF_ERROR(engine.Submit(std::move(options), sink));
  return sink->Wait();
}

// Tokens per second of `batch` sequences that decode together.
absl::StatusOr<double> DecodeRate(worker::Engine& engine, int64_t batch,
                                  int64_t n_decode) {
  std::vector<std::shared_ptr<CountingSink>> sinks;
  for (int64_t i = 0; i < batch; ++i) {
    sinks.push_back(std::make_shared<CountingSink>());
    worker::GenerateOptions options;
    options.prompt_ids = RandomPrompt(16, engine.tokenizer().vocab_size(),
                                      static_cast<uint64_t>(i));
    options.max_tokens = n_decode;
    options.sampling.temperature = 0;
    options.ignore_eos = true;
    RETURN_IF_ERROR(engine.Submit(std::move(options), sinks.back()));
  }
  double seconds = 0;
  for (const auto& sink : sinks) {
    ASSIGN_OR_RETURN(const worker::FinishInfo info, sink->Wait());
    seconds = std::max(seconds, absl::ToDoubleSeconds(info.decode));
  }
  return static_cast<double>(batch * (n_decode - 1)) / seconds;
}

absl::Status Run(const Flags& flags) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const auto file, worker::ModelFile::Open(flags.model));
  planner::LoadOptions load;
  load.n_ctx = flags.n_ctx;
  load.n_slots = *std::max_element(flags.batches.begin(), flags.batches.end());
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      planner::Layout(file->shape(), load, worker::LocalCpuProfile(),
                      worker::AvailableMemoryBytes()));
  worker::EngineOptions options;
  options.clock = absl::Now;
  options.n_threads = flags.threads;
  options.precision =
      flags.exact ? worker::Precision::kExact : worker::Precision::kDefault;
  ASSIGN_OR_RETURN(const auto engine,
                   worker::Engine::Load(*file, plan, options, [](const auto&) {
                     return absl::OkStatus();
                   }));
  nlohmann::json result;
  result["model"] = file->shape().name;
  result["device"] = worker::LocalCpuProfile().name;
  result["load_seconds"] = absl::ToDoubleSeconds(absl::Now() - start);
  const int64_t n_prompt = std::min(flags.prompt_tokens, plan.n_ctx - 1);
  for (int run = 0; run < 3; ++run) {
    auto sink = std::make_shared<CountingSink>();
    ASSIGN_OR_RETURN(const worker::FinishInfo info,
                     RunOne(*engine, n_prompt, 1, 7, sink));
    result["prefill_tokens_per_s"][absl::StrCat(n_prompt)].push_back(
        static_cast<double>(n_prompt) / absl::ToDoubleSeconds(info.prefill));
  }
  for (const int64_t batch : flags.batches) {
    for (int run = 0; run < 3; ++run) {
      ASSIGN_OR_RETURN(const double rate,
                       DecodeRate(*engine, batch, flags.decode_tokens));
      result["decode_tokens_per_s"][absl::StrCat(batch)].push_back(rate);
    }
  }
  const worker::MemoryReport memory = engine->Memory();
  result["planned_bytes"] = memory.planned_bytes;
  result["allocated_bytes"] = memory.allocated_bytes;
  result["device_allocations_after_load"] =
      memory.device_allocations_after_load;
  result["plan_total_bytes"] = plan.total_bytes;
  result["peak_rss_bytes"] = worker::PeakResidentBytes();
  std::cout << result.dump(1) << "\n";
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Prefill and decode rates of a model on this machine");
  app.add_option("--model", flags.model, "GGUF file")->required();
  app.add_option("--threads", flags.threads, "0 = all usable");
  app.add_option("--prompt-tokens", flags.prompt_tokens, "tokens of prefill")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--decode-tokens", flags.decode_tokens, "tokens of decode")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20));
  app.add_option("--n-ctx", flags.n_ctx, "tokens of context per slot");
  app.add_option("--batch", flags.batches, "sequences decoded together");
  app.add_flag("--exact", flags.exact, "float32 activations");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(flags);
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) { return plimsoll::Main(argc, argv); }
