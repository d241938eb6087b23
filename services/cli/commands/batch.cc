// `plimsoll generate --batch`: answers many prompts with a model that is loaded
// once.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/commands/generate.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/json.h"

namespace plimsoll::cli {
namespace {

// For each slot, this many lines run or wait to be printed. There are more
// lines than slots, so that a long line does not leave the other slots idle,
// and fewer than fit in the engine's queue.
constexpr int64_t kLinesPerSlot = 4;

struct Line {
  int64_t number;
  std::unique_ptr<ReplyStream> stream;
};

absl::Status OfLine(int64_t number, const absl::Status& status) {
  return Prefixed(absl::StrCat("batch line ", number, ": "), status);
}

absl::Status PrintFront(std::deque<Line>& lines, Streams& streams) {
  Line line = std::move(lines.front());
  lines.pop_front();
  const auto response =
      Collect(*line.stream, [](const v1::StreamGenerateResponse&) {});
  if (!response.ok()) return OfLine(line.number, response.status());
  RETURN_IF_ERROR(PrintJson(*response, streams.out, JsonForm::kLine));
  streams.out.flush();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReplyStream>> StartLine(
    const std::string& text, Generator& generator, const GenerateFlags& flags) {
  ASSIGN_OR_RETURN(std::string prompt, JsonStringField(text, "prompt"));
  ASSIGN_OR_RETURN(const v1::StreamGenerateRequest request,
                   RequestFor(std::move(prompt), flags));
  return generator.Start(request);
}

}  // namespace

absl::Status RunBatch(Generator& generator, const GenerateFlags& flags,
                      Streams& streams) {
  std::ifstream file;
  if (flags.batch != "-") {
    file.open(flags.batch, std::ios::binary);
    if (!file.is_open()) {
      return absl::NotFoundError(
          absl::StrCat(flags.batch, ": ", std::strerror(errno)));
    }
  }
  std::istream& in = flags.batch == "-" ? streams.in : file;
  const int64_t max_lines = std::min<int64_t>(
      flags.load.slots == 1 ? 1 : flags.load.slots * kLinesPerSlot,
      worker::EngineOptions::kMaxQueued);
  std::deque<Line> lines;
  absl::Status failure;
  for (int64_t number = 1; failure.ok(); ++number) {
    const auto text = ReadLine(in, kMaxLineBytes);
    if (!text.ok()) {
      failure = OfLine(number, text.status());
      break;
    }
    if (!text->has_value()) break;
    if (absl::StripAsciiWhitespace(**text).empty()) continue;
    if (static_cast<int64_t>(lines.size()) == max_lines) {
      RETURN_IF_ERROR(PrintFront(lines, streams));
    }
    auto stream = StartLine(**text, generator, flags);
    if (!stream.ok()) {
      failure = OfLine(number, stream.status());
      break;
    }
    lines.push_back({number, *std::move(stream)});
  }
  while (!lines.empty()) RETURN_IF_ERROR(PrintFront(lines, streams));
  return failure;
}

}  // namespace plimsoll::cli
