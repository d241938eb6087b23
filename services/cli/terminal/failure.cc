// Turns errors into exit codes and messages.
#include "services/cli/terminal/failure.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/terminal/bytes.h"
#include "services/wire/errors.h"

namespace plimsoll::cli {
namespace {

// Payloads that distinguish errors with the same status code.
constexpr absl::string_view kErrorInfoUrl =
    "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kUsageUrl = "plimsoll.dev/cli/usage";
constexpr absl::string_view kSaidUrl = "plimsoll.dev/cli/said";
constexpr absl::string_view kInterruptedUrl = "plimsoll.dev/cli/interrupted";

absl::Status Marked(absl::Status status, absl::string_view url) {
  status.SetPayload(url, absl::Cord());
  return status;
}

}  // namespace

absl::Status UsageError(absl::string_view message) {
  return Marked(absl::InvalidArgumentError(message), kUsageUrl);
}

absl::Status InterruptedError() {
  return Marked(absl::CancelledError("interrupted"), kInterruptedUrl);
}

bool IsInterruptedError(const absl::Status& status) {
  return status.GetPayload(kInterruptedUrl).has_value();
}

absl::Status DoesNotFit(const v1::MemoryPlan& plan) {
  const auto total = static_cast<int64_t>(plan.total_bytes());
  const auto budget = static_cast<int64_t>(plan.budget_bytes());
  const auto missing = static_cast<int64_t>(plan.missing_bytes());
  std::string message = absl::StrCat(
      "the model does not fit: wants ", FormatCount(total), " bytes (",
      FormatBytes(total), "), there are ", FormatCount(budget), " (",
      FormatBytes(budget), "), ", FormatCount(missing), " (",
      FormatBytes(missing), ") are missing");
  for (const v1::Suggestion& suggestion : plan.suggestions()) {
    absl::StrAppend(&message, "\n  try: ", suggestion.text(), "  (saves ",
                    FormatBytes(static_cast<int64_t>(suggestion.saves_bytes())),
                    ")");
  }
  if (plan.suggestions().empty()) {
    absl::StrAppend(&message,
                    "\n  try: a larger --device-memory, or a smaller model; no "
                    "shorter context or smaller step makes it fit");
  }
  return DoesNotFit(message);
}

absl::Status DoesNotFit(const v1::PlanSplitResponse& split,
                        const std::vector<std::string>& names) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < names.size(); ++i) {
    lines.push_back(absl::StrCat(
        names[i], " takes no layers, there are ",
        FormatBytes(
            static_cast<int64_t>(split.budget_bytes(static_cast<int>(i))))));
  }
  for (const v1::SplitPart& part : split.parts()) {
    const auto of = [](uint64_t bytes) {
      return FormatBytes(static_cast<int64_t>(bytes));
    };
    lines[part.device()] =
        absl::StrCat(names[part.device()], " takes layers ", part.first_layer(),
                     "-", part.first_layer() + part.n_layers() - 1, ": ",
                     of(part.plan().total_bytes()), " of ",
                     of(split.budget_bytes(static_cast<int>(part.device()))));
  }
  const auto missing = static_cast<int64_t>(split.missing_bytes());
  std::string message =
      absl::StrCat("the model does not fit its devices\n  ",
                   absl::StrJoin(lines, "\n  "), "\n  ", split.n_layers_left(),
                   split.n_layers_left() == 1 ? " layer is" : " layers are",
                   " left; ", names.back(), " lacks ", FormatCount(missing),
                   " bytes (", FormatBytes(missing), ") for them");
  for (const v1::Suggestion& suggestion : split.suggestions()) {
    absl::StrAppend(&message, "\n  try: ", suggestion.text());
  }
  absl::StrAppend(&message,
                  "\n  try: another device, or a larger --device-memory");
  return DoesNotFit(message);
}

absl::Status DoesNotFit(absl::string_view message) {
  return services::WithDetails(
      absl::ResourceExhaustedError(message),
      {.reason = v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
       .metadata = {},
       .retry_after = {}});
}

absl::Status AlreadySaid(absl::Status status) {
  return Marked(std::move(status), kSaidUrl);
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  if (status.GetPayload(kUsageUrl).has_value()) return kExitUsage;
  if (IsInterruptedError(status)) return kExitInterrupted;
  // Without details of its own, this code may also mean a full queue.
  if (status.code() == absl::StatusCode::kResourceExhausted &&
      status.GetPayload(kErrorInfoUrl).has_value() &&
      services::DetailsOf(status).reason ==
          v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED) {
    return kExitDoesNotFit;
  }
  return kExitError;
}

int Report(const absl::Status& status, Streams& streams) {
  const int code = ExitCodeOf(status);
  if (code == kExitOk || code == kExitInterrupted ||
      status.GetPayload(kSaidUrl).has_value()) {
    return code;
  }
  streams.err << Paint(streams.err_style, Color::kRed, "plimsoll:") << " "
              << Printable(status.message()) << "\n";
  const services::ErrorDetails details = services::DetailsOf(status);
  if (const auto hint = details.metadata.find("try");
      hint != details.metadata.end()) {
    streams.err << "  try: " << Printable(hint->second) << "\n";
  }
  if (code == kExitUsage) {
    streams.err << "Run with --help for more information.\n";
  }
  return code;
}

absl::Status Prefixed(absl::string_view prefix, const absl::Status& status) {
  absl::Status result(status.code(), absl::StrCat(prefix, status.message()));
  status.ForEachPayload(
      [&result](absl::string_view url, const absl::Cord& payload) {
        result.SetPayload(url, payload);
      });
  return result;
}

}  // namespace plimsoll::cli
