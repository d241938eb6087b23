#include "services/cli/backends/check_forward.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/interrupt.h"
#include "worker/device/compute_device.h"
#include "worker/device/reference_device.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::cli {
namespace {

constexpr char kExactName[] = "forward exact";
constexpr char kDefaultName[] = "forward default";
constexpr char kSanityName[] = "sanity";

// A text that any model of English finds likely.
constexpr char kPlainText[] =
    "The ship left the harbour early in the morning, when the sea was calm and "
    "the wind came from the west. The captain looked at the line on the hull "
    "and said that she could carry no more. Two days later they saw land "
    "again, and everyone on board was glad.";

// If the likeliest token is as likely as the average one but for this, all
// logits are equal. Rounding is far below it.
constexpr double kEqualLogits = 1e-4;

std::string DifferenceText(const PassDifference& difference, int64_t n_tokens) {
  return absl::StrCat(n_tokens, " tokens beside the reference: ",
                      absl::StrFormat("%.3g", difference.largest),
                      " is the largest of ", difference.n_compared,
                      " differences of log-probabilities; greedy tokens ",
                      difference.same_greedy ? "agree" : "differ");
}

// How large a difference may be, and the state of a larger one.
struct Bound {
  double tolerance;
  CheckState beyond;
};

// What both verdicts on a difference have in common.
Check JudgeDifference(const char* name, const PassDifference& difference,
                      int64_t n_tokens, const Bound& bound) {
  Check check{.name = name, .text = DifferenceText(difference, n_tokens)};
  // NaN is beyond any tolerance.
  if (!(difference.largest <= bound.tolerance)) {
    check.Worsen(bound.beyond);
    check.findings.push_back(
        absl::StrFormat("the difference is beyond %.3g", bound.tolerance));
  }
  if (!difference.same_greedy) check.Worsen(CheckState::kNote);
  check.figures = {{"tokens", static_cast<double>(n_tokens)},
                   {"compared", static_cast<double>(difference.n_compared)},
                   {"largest_difference", difference.largest},
                   {"tolerance", bound.tolerance},
                   {"greedy_agrees", difference.same_greedy}};
  return check;
}

// True for an error that says that a model cannot run here, not that it is bad.
bool CannotRun(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsResourceExhausted(status);
}

// The passes that are compared.
class Passes {
 public:
  Passes(worker::ModelFile& file, int n_threads, const TellStep& tell)
      : file_(file), n_threads_(n_threads), tell_(tell) {}

  absl::StatusOr<std::vector<Check>> Run(const std::vector<int32_t>& text) {
    const auto n_prompt = std::min(
        std::ssize(text), static_cast<std::ptrdiff_t>(PassTokens(shape())));
    prompt_.assign(text.begin(), text.begin() + n_prompt);
    RETURN_IF_ERROR(RunDefault(text));
    RETURN_IF_ERROR(RunExact());
    RETURN_IF_ERROR(RunReference());
    const int64_t n_tokens = std::ssize(prompt_);
    return std::vector<Check>{
        JudgeExact(Compare(exact_, reference_), n_tokens),
        JudgeDefault(Compare(default_, reference_), n_tokens),
        JudgeSanity(text_, shape().vocab_size)};
  }

 private:
  const planner::ModelShape& shape() const { return file_.shape(); }

  // The engine's default, with which a text and the prompt are computed.
  absl::Status RunDefault(const std::vector<int32_t>& text) {
    tell_(absl::StrCat("forward pass: ", text.size(),
                       " tokens of a plain text, default precision"));
    ASSIGN_OR_RETURN(
        const auto engine,
        LoadForPass(file_, {.device = &worker::LocalCpu(),
                            .precision = worker::Precision::kDefault,
                            .kv_type = DType::kF16,
                            .n_threads = n_threads_}));
    ASSIGN_OR_RETURN(text_, RunPass(*engine, text));
    ASSIGN_OR_RETURN(default_, RunPass(*engine, prompt_));
    return absl::OkStatus();
  }

  absl::Status RunExact() {
    tell_(absl::StrCat("forward pass: ", prompt_.size(),
                       " tokens, exact precision"));
    ASSIGN_OR_RETURN(const auto engine,
                     LoadForPass(file_, {.device = &worker::LocalCpu(),
                                         .precision = worker::Precision::kExact,
                                         .kv_type = DType::kF32,
                                         .n_threads = n_threads_}));
    ASSIGN_OR_RETURN(exact_, RunPass(*engine, prompt_));
    return absl::OkStatus();
  }

  absl::Status RunReference() {
    const absl::Duration time = ReferenceTime(shape(), std::ssize(prompt_));
    tell_(absl::StrCat("forward pass: ", prompt_.size(),
                       " tokens, reference kernels, about ",
                       std::max<int64_t>(1, absl::ToInt64Seconds(time)),
                       " s (--no-forward leaves this out)"));
    ASSIGN_OR_RETURN(const auto engine,
                     LoadForPass(file_, {.device = &worker::ReferenceCpu(),
                                         .precision = worker::Precision::kExact,
                                         .kv_type = DType::kF32,
                                         .n_threads = 1}));
    ASSIGN_OR_RETURN(reference_, RunPass(*engine, prompt_));
    return absl::OkStatus();
  }

  worker::ModelFile& file_;
  const int n_threads_;
  const TellStep& tell_;
  std::vector<int32_t> prompt_;
  PassResult text_;
  PassResult default_;
  PassResult exact_;
  PassResult reference_;
};

}  // namespace

int64_t PassTokens(const planner::ModelShape& shape) {
  int64_t n_tokens = kMostPassTokens;
  while (n_tokens > kLeastPassTokens &&
         absl::ToDoubleSeconds(ReferenceTime(shape, n_tokens)) >
             kReferenceSeconds) {
    --n_tokens;
  }
  return n_tokens;
}

std::vector<Check> ForwardLeftOut(absl::string_view why) {
  std::vector<Check> checks;
  for (const char* name : {kExactName, kDefaultName, kSanityName}) {
    checks.push_back({.name = name,
                      .state = CheckState::kNote,
                      .text = absl::StrCat("left out: ", why)});
  }
  return checks;
}

Check JudgeExact(const PassDifference& difference, int64_t n_tokens) {
  return JudgeDifference(
      kExactName, difference, n_tokens,
      {.tolerance = kExactTolerance, .beyond = CheckState::kFailed});
}

Check JudgeDefault(const PassDifference& difference, int64_t n_tokens) {
  return JudgeDifference(
      kDefaultName, difference, n_tokens,
      {.tolerance = kDefaultTolerance, .beyond = CheckState::kNote});
}

Check JudgeSanity(const PassResult& result, int64_t vocab_size) {
  const double perplexity = result.Perplexity();
  const auto uniform = static_cast<double>(vocab_size);
  Check check{.name = kSanityName};
  check.figures = {{"tokens", static_cast<double>(result.logprobs.size())},
                   {"perplexity", perplexity},
                   {"uniform_perplexity", uniform}};
  const bool is_finite = std::isfinite(perplexity) &&
                         !result.candidates.empty() &&
                         std::isfinite(result.candidates.front().logprob);
  if (!is_finite) {
    check.state = CheckState::kFailed;
    check.text = "log-probabilities are not finite";
    return check;
  }
  const double best = static_cast<double>(result.candidates.front().logprob);
  if (best + std::log(uniform) < kEqualLogits) {
    check.state = CheckState::kFailed;
    check.text = "all logits are equal; the model says nothing";
    return check;
  }
  // The middle between certainty and a uniform guess. Models of any size that
  // know the language are far below it, and those that know none are above it.
  const bool is_trained = std::log(perplexity) < std::log(uniform) / 2;
  if (!is_trained) check.state = CheckState::kNote;
  check.text =
      absl::StrCat(is_trained ? "looks trained" : "looks random or damaged",
                   ": perplexity ", absl::StrFormat("%.4g", perplexity),
                   " of a plain English text (", result.logprobs.size(),
                   " tokens); a uniform guess has ", FormatCount(vocab_size));
  return check;
}

absl::StatusOr<std::vector<Check>> CheckForward(
    worker::ModelFile& file, const worker::Tokenizer& tokenizer, int n_threads,
    const TellStep& tell) {
  if (const absl::Status status = worker::CheckArchitecture(file.shape());
      !status.ok()) {
    return ForwardLeftOut(status.message());
  }
  ASSIGN_OR_RETURN(
      std::vector<int32_t> text,
      tokenizer.EncodeWithBos(kPlainText, worker::ParseSpecial::kNo));
  // One token follows the text.
  const int64_t most = std::min(kPassContext, file.shape().n_ctx_train) - 1;
  if (std::ssize(text) > most) text.resize(static_cast<size_t>(most));
  if (text.size() < 2) {
    return ForwardLeftOut("a text of fewer than two tokens fits the context");
  }
  auto checks = Passes(file, n_threads, tell).Run(text);
  if (checks.ok() || Interrupted()) return checks;
  if (CannotRun(checks.status())) {
    return ForwardLeftOut(checks.status().message());
  }
  if (!absl::IsInternal(checks.status())) return checks;
  // What an engine says of logits that are not finite.
  std::vector<Check> failed = ForwardLeftOut("see sanity");
  failed.back().state = CheckState::kFailed;
  failed.back().text = std::string(checks.status().message());
  return failed;
}

}  // namespace plimsoll::cli
