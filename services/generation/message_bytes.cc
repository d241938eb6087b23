#include "services/generation/message_bytes.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/wire/errors.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::services {
namespace {

// On the wire, tags included, at most.
constexpr int64_t kTokenBytes = 20;
constexpr int64_t kCandidateBytes = 13;
constexpr int64_t kScoreBytes = 5;
constexpr int64_t kEvictionBytes = 48;
// The frame and the place of a piece of a call.
constexpr int64_t kCallPieceBytes = 16;
// A token that is scored: its id in a vector, in the engine and in the reply,
// and its log-probability.
constexpr int64_t kScoredPerId = 16;
// An id as a number, in the request, in two vectors of which one doubles.
constexpr int64_t kBytesOfId = 16;
// A text is held as bytes in a string that doubles, as UTF-8, in the reply and
// on the wire.
constexpr int64_t kCopiesOfText = 5;
// A reply's share grows by this much.
constexpr int64_t kShareStep = 64 << 10;

}  // namespace

int64_t WorkBytes(const google::protobuf::MessageLite& request) {
  return kWorkPerByte * static_cast<int64_t>(request.ByteSizeLong());
}

int64_t HeldBytes(const google::protobuf::MessageLite& request,
                  std::span<const int32_t> ids) {
  return kHeldPerByte * static_cast<int64_t>(request.ByteSizeLong()) +
         kHeldPerId * static_cast<int64_t>(ids.size()) + WireBytes(ids);
}

int64_t ScoreBytes(int64_t n_ids, int64_t reply_bytes) {
  return kScoredPerId * n_ids + reply_bytes;
}

int64_t DetokenizeBytes(int64_t n_ids, int64_t text_bytes) {
  return kBytesOfId * n_ids + kCopiesOfText * text_bytes;
}

int64_t WireBytes(std::span<const int32_t> ids) {
  int64_t bytes = 0;
  for (const int32_t id : ids) {
    ++bytes;
    for (uint32_t rest = static_cast<uint32_t>(id) >> 7; rest > 0; rest >>= 7) {
      ++bytes;
    }
  }
  return bytes;
}

int64_t WireBytes(const worker::StepOutput& output) {
  // Calls of tools repeat what their pieces say.
  int64_t bytes = 2 * static_cast<int64_t>(output.text.size());
  if (!output.text.empty()) bytes += kCallPieceBytes;
  for (const worker::TokenOutput& token : output.tokens) {
    bytes += kTokenBytes +
             kCandidateBytes * static_cast<int64_t>(token.candidates.size());
  }
  return bytes +
         kScoreBytes * static_cast<int64_t>(output.prompt_scores.size()) +
         kEvictionBytes * static_cast<int64_t>(output.evictions.size());
}

absl::StatusOr<int64_t> TextBytes(const worker::Tokenizer& tokenizer,
                                  std::span<const int32_t> ids,
                                  bool render_special, StopCheck stop) {
  worker::StopCounter counter(stop);
  int64_t bytes = 0;
  std::string one;
  for (const int32_t id : ids) {
    one.clear();
    tokenizer.AppendBytes(id, worker::RenderSpecialIf(render_special), one);
    bytes += static_cast<int64_t>(one.size());
    RETURN_IF_ERROR(counter.Spend(1 + static_cast<int64_t>(one.size())));
    if (bytes > kMaxReplyBytes) break;
  }
  return bytes;
}

absl::Status CheckReplyBytes(int64_t bytes, absl::string_view advice) {
  if (bytes <= kMaxReplyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the reply would have at least ", bytes, " bytes, at most ",
                   kMaxReplyBytes, " are sent: ", advice));
}

absl::Status ReplyMeter::Add(int64_t bytes) {
  reply_bytes_ += bytes;
  if (reply_bytes_ > kMaxReplyBytes) {
    return WithDetails(
        absl::ResourceExhaustedError(absl::StrCat(
            "the reply has more than the ", kMaxReplyBytes,
            " bytes that are sent in one message: use StreamGenerate, or ask "
            "for fewer tokens or candidates")),
        {v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
         {{"wanted_bytes", absl::StrCat(reply_bytes_)},
          {"available_bytes", absl::StrCat(kMaxReplyBytes)}},
         std::nullopt});
  }
  const int64_t wanted =
      first_held_ + kReplyPerByte * (reply_bytes_ - first_bytes_);
  if (wanted <= share_.bytes()) return absl::OkStatus();
  return share_.Grow(wanted + kShareStep);
}

}  // namespace plimsoll::services
