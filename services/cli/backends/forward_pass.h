// Computes the log-probabilities of a short text with one set of kernels, and
// compares the results of two sets.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_FORWARD_PASS_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_FORWARD_PASS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/dtype.h"
#include "planner/model/model_shape.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/device/precision.h"
#include "worker/engine/engine.h"
#include "worker/sampling/token_output.h"

namespace plimsoll::cli {

// The most tokens of context of a pass.
inline constexpr int64_t kPassContext = 128;

// How a pass is computed.
struct PassSetup {
  const worker::ComputeDevice* device;  // outlives the engine
  worker::Precision precision;
  DType kv_type;
  int n_threads;
};

// Loads a model with a context of kPassContext, or with its trained context if
// that is shorter.
// Errors: kResourceExhausted if it does not fit the device's free memory; those
// of CheckRunnable and Engine::Load; an interruption.
absl::StatusOr<std::unique_ptr<worker::Engine>> LoadForPass(
    worker::ModelFile& file, const PassSetup& setup);

// The result of a pass over a text.
struct PassResult {
  std::vector<float> logprobs;  // one for every token after the first
  // The likeliest tokens after the text, the likeliest first.
  std::vector<worker::Candidate> candidates;

  // exp of the mean negative log-probability. NaN without log-probabilities.
  double Perplexity() const;
};

// Errors: those of the engine (kInternal if logits are not finite); an
// interruption.
absl::StatusOr<PassResult> RunPass(worker::Engine& engine,
                                   std::vector<int32_t> ids);

struct PassDifference {
  int64_t n_compared = 0;  // log-probabilities
  double largest = 0;      // NaN if any difference is NaN
  bool same_greedy = false;
};

// Compares the log-probabilities of the text, and of the candidates that both
// have.
PassDifference Compare(const PassResult& a, const PassResult& b);

// Estimates how long the reference backend takes for a pass over `n_tokens`.
absl::Duration ReferenceTime(const planner::ModelShape& shape,
                             int64_t n_tokens);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_FORWARD_PASS_H_
