#include "services/cli/backends/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/memory_plan.h"
#include "services/cli/backends/waiting_sink.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/host/clock.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::cli {
namespace {

constexpr int kPassCandidates = 10;

// The reference backend's nanoseconds for a weight: to decode it once for all
// rows, and to multiply it once for each row (measured on a CPU of 2024).
constexpr double kDecodeNs = 2;
constexpr double kMultiplyNs = 1;

// Keeps what a pass gives.
class PassSink final : public WaitingSink {
 public:
  bool OnOutput(worker::StepOutput& output) override {
    for (const worker::PromptScore& score : output.prompt_scores) {
      result_.logprobs.push_back(score.logprob);
    }
    for (worker::TokenOutput& token : output.tokens) {
      if (result_.candidates.empty()) {
        result_.candidates = std::move(token.candidates);
      }
    }
    return true;
  }

  // Requires Wait.
  PassResult Take() { return std::move(result_); }

 private:
  PassResult result_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<worker::Engine>> LoadForPass(
    worker::ModelFile& file, const PassSetup& setup) {
  planner::LoadOptions load;
  load.n_ctx = std::min(kPassContext, file.shape().n_ctx_train);
  load.n_ubatch = kPassContext;
  load.k_type = setup.kv_type;
  load.v_type = setup.kv_type;
  const planner::DeviceProfile profile = setup.device->Profile();
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      planner::Layout(file.shape(), {load}, profile, profile.free_bytes));
  RETURN_IF_ERROR(worker::CheckRunnable(file.shape(), plan));
  if (!plan.fits) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the model does not fit: it wants ", FormatBytes(plan.total_bytes),
        ", there are ", FormatBytes(plan.budget_bytes)));
  }
  worker::EngineOptions options;
  options.device = setup.device;
  options.precision = setup.precision;
  options.n_threads = setup.n_threads;
  options.prefix_cache_bytes = 0;
  options.clock = services::BootTime;
  return worker::Engine::Load(
      file, plan, options, [](const worker::LoadProgress&) {
        return Interrupted() ? InterruptedError() : absl::OkStatus();
      });
}

double PassResult::Perplexity() const {
  double sum = 0;
  for (const float logprob : logprobs) sum += static_cast<double>(logprob);
  return std::exp(-sum / static_cast<double>(logprobs.size()));
}

absl::StatusOr<PassResult> RunPass(worker::Engine& engine,
                                   std::vector<int32_t> ids) {
  worker::GenerateOptions options;
  options.prompt_ids = std::move(ids);
  options.max_tokens = 1;
  options.sampling.temperature = 0;
  options.top_logprobs = kPassCandidates;
  options.ignore_eos = true;
  options.prompt_logprobs = true;
  auto sink = std::make_shared<PassSink>();
  RETURN_IF_ERROR(engine.Submit(std::move(options), sink));
  RETURN_IF_ERROR(sink->Wait().status());
  return sink->Take();
}

PassDifference Compare(const PassResult& a, const PassResult& b) {
  PassDifference found;
  const auto add = [&found](float x, float y) {
    const double difference =
        std::abs(static_cast<double>(x) - static_cast<double>(y));
    ++found.n_compared;
    // NaN counts as the largest, and stays.
    if (std::isnan(found.largest)) return;
    if (!(difference <= found.largest)) found.largest = difference;
  };
  for (size_t i = 0; i < std::min(a.logprobs.size(), b.logprobs.size()); ++i) {
    add(a.logprobs[i], b.logprobs[i]);
  }
  for (const worker::Candidate& x : a.candidates) {
    const auto y =
        std::ranges::find(b.candidates, x.id, &worker::Candidate::id);
    if (y != b.candidates.end()) add(x.logprob, y->logprob);
  }
  found.same_greedy = !a.candidates.empty() && !b.candidates.empty() &&
                      a.candidates.front().id == b.candidates.front().id;
  return found;
}

absl::Duration ReferenceTime(const planner::ModelShape& shape,
                             int64_t n_tokens) {
  double once = 0;      // weights that are decoded once for all rows
  double each_row = 0;  // weights that every row multiplies
  double experts = 0;   // weights of a row's experts, decoded for each row
  for (const planner::WeightTensor& tensor : shape.weights) {
    const double n =
        static_cast<double>(tensor.rows) * static_cast<double>(tensor.cols);
    switch (tensor.kind) {
      case planner::WeightKind::kExpert:
        experts += n * static_cast<double>(shape.n_experts_used);
        break;
      case planner::WeightKind::kEmbedding:
        if (!shape.tied_output) break;
        once += n;
        each_row += n;
        break;
      case planner::WeightKind::kPerLayerEmbedding:
        break;
      case planner::WeightKind::kDense:
        once += n;
        each_row += n;
        break;
    }
  }
  const double rows_ns =
      (each_row + experts) * kMultiplyNs + experts * kDecodeNs;
  return absl::Nanoseconds(once * kDecodeNs +
                           rows_ns * static_cast<double>(n_tokens));
}

}  // namespace plimsoll::cli
