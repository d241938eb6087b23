#include "services/cli/backends/verify.h"

#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "services/cli/backends/check_forward.h"
#include "services/cli/backends/check_tensors.h"
#include "services/cli/backends/check_tokenizer.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/progress.h"
#include "services/host/clock.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

// Opening the file has checked the header.
Check HeaderCheck(const worker::ModelFile& file) {
  const planner::ModelShape& shape = file.shape();
  return {.name = "header",
          .text = absl::StrCat(
              shape.architecture, ", ", shape.n_layers, " layers, vocabulary ",
              FormatCount(shape.vocab_size), ", ", FormatBytes(file.Size())),
          .figures = {{"layers", static_cast<double>(shape.n_layers)},
                      {"vocabulary", static_cast<double>(shape.vocab_size)},
                      {"bytes", static_cast<double>(file.Size())}}};
}

absl::StatusOr<Check> CheckTensorsWithProgress(worker::ModelFile& file,
                                               const std::string& name,
                                               int n_threads,
                                               Streams& streams) {
  Progress progress({.name = name, .verb = "checking"}, services::BootTime(),
                    streams);
  return CheckTensors(
      file, n_threads, [&](int64_t bytes_done, int64_t bytes_total) {
        if (Interrupted()) return InterruptedError();
        progress.Update(bytes_done, bytes_total, services::BootTime());
        return absl::OkStatus();
      });
}

// Why no forward pass is run; empty if it is.
absl::string_view WhyNoForward(const VerifyOptions& options,
                               const Check& tensors,
                               const TokenizerCheck& tokenizer) {
  if (!options.has_forward) return "--no-forward";
  if (tensors.state == CheckState::kFailed) return "tensors are damaged";
  if (tokenizer.tokenizer == nullptr) return "it needs the tokenizer";
  if (tokenizer.check.state == CheckState::kFailed) {
    return "the tokenizer is damaged";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<Check>> Verify(const std::string& model,
                                          const VerifyOptions& options,
                                          Streams& streams) {
  const int n_threads =
      options.n_threads > 0 ? options.n_threads : worker::UsableThreads();
  ASSIGN_OR_RETURN(const auto file, OpenModel(model));
  const std::string name =
      std::filesystem::path(ResolveModel(model)).filename().string();
  std::vector<Check> checks = {HeaderCheck(*file)};
  ASSIGN_OR_RETURN(Check tensors,
                   CheckTensorsWithProgress(*file, name, n_threads, streams));
  TokenizerCheck tokenizer = CheckTokenizer(*file);
  const absl::string_view why_not = WhyNoForward(options, tensors, tokenizer);
  checks.push_back(std::move(tensors));
  checks.push_back(std::move(tokenizer.check));
  std::vector<Check> forward;
  if (why_not.empty()) {
    ASSIGN_OR_RETURN(forward,
                     CheckForward(*file, *tokenizer.tokenizer, n_threads,
                                  [&streams](const std::string& step) {
                                    streams.err << step << "\n" << std::flush;
                                  }));
  } else {
    forward = ForwardLeftOut(why_not);
  }
  std::move(forward.begin(), forward.end(), std::back_inserter(checks));
  return checks;
}

}  // namespace plimsoll::cli
