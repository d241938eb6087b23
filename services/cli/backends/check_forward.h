// Checks a model's forward pass: compares the CPU's kernels with the
// reference's, and judges the model's results for a plain text.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_FORWARD_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_FORWARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/model_shape.h"
#include "services/cli/backends/check.h"
#include "services/cli/backends/forward_pass.h"
#include "worker/device/model_file.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::cli {

// Largest difference of log-probabilities from the reference's. With exact
// precision, kernels differ from the reference only by the order of float32
// sums: by 0.00002 for two real models. The default precision rounds
// activations to 16 bits, and keys and values to F16. The difference is then
// 0.0024 for these models, and more if a router's experts or likely tokens have
// almost equal scores.
inline constexpr double kExactTolerance = 0.003;
inline constexpr double kDefaultTolerance = 0.3;

// The reference computes as many tokens as it can in kReferenceSeconds, within
// these limits.
inline constexpr int64_t kLeastPassTokens = 3;
inline constexpr int64_t kMostPassTokens = 12;
inline constexpr double kReferenceSeconds = 60;

int64_t PassTokens(const planner::ModelShape& shape);

// Called with a sentence about each computation when it begins.
using TellStep = std::function<void(const std::string&)>;

// Returns the checks "forward exact", "forward default" and "sanity". If the
// model cannot run here, they are notes that say why.
// Errors: those of loading an engine, unless the model cannot run or does not
// fit; an interruption.
absl::StatusOr<std::vector<Check>> CheckForward(
    worker::ModelFile& file, const worker::Tokenizer& tokenizer, int n_threads,
    const TellStep& tell);

// Returns the checks of CheckForward as skipped because of `why`.
std::vector<Check> ForwardLeftOut(absl::string_view why);

// The verdict on a pass whose difference from the reference is known.
Check JudgeExact(const PassDifference& difference, int64_t n_tokens);
Check JudgeDefault(const PassDifference& difference, int64_t n_tokens);
// The verdict on a pass over a plain text, without a reference.
Check JudgeSanity(const PassResult& result, int64_t vocab_size);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_CHECK_FORWARD_H_
