// Limits the memory for the messages of a worker's calls.
#ifndef PLIMSOLL_SERVICES_GENERATION_MESSAGE_BYTES_H_
#define PLIMSOLL_SERVICES_GENERATION_MESSAGE_BYTES_H_

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "services/server/byte_budget.h"
#include "services/server/server.h"
#include "worker/engine/engine.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::services {

// All calls together hold at most this much.
inline constexpr int64_t kMessageBytes = 64 << 20;
// The region "messages" of a worker's plans, with what gRPC itself buffers.
inline constexpr int64_t kPlannedMessageBytes =
    kMessageBytes + int64_t{kMaxBufferBytes};
// Bytes of one reply on the wire. By default, a gRPC client accepts no larger
// message.
inline constexpr int64_t kMaxReplyBytes = kMaxMessageBytes;
// Bytes for tags, lengths and names in a reply, beside text and ids.
inline constexpr int64_t kReplyFrameBytes = 1'024;

// Bytes that a call holds for each byte of its request on the wire while it
// turns the request into tokens: the message, the ids in a vector that doubles,
// and the ids of the reply.
inline constexpr int64_t kWorkPerByte = 12;
// Bytes that the call holds afterwards, until its end, for each byte of the
// rest of its request: the message, and the data parsed from it.
inline constexpr int64_t kHeldPerByte = 4;
// Bytes that the call holds, in addition, for each token of its prompt: in the
// engine and in the reply, which repeats the prompt's tokens.
inline constexpr int64_t kHeldPerId = 8;
static_assert(kWorkPerByte * kMaxMessageBytes <= kMessageBytes / 4 * 3,
              "the largest request must be possible");
static_assert(kHeldPerId + 1 <= kWorkPerByte,
              "an id has a byte on the wire at least");
// Bytes that a growing reply takes in memory for each byte on the wire:
// objects, pointers, and vectors that double.
inline constexpr int64_t kReplyPerByte = 8;
// Bytes on the wire of a stream's output that wait for its client, unless a
// single message has more. A client that does not read may cost 64 KiB. In
// memory these bytes take half of that, and the transport takes some of the
// rest. Sixteen tokens without log-probabilities have about 500 bytes.
inline constexpr int64_t kMaxPendingBytes = 4 << 10;
static_assert(kReplyPerByte * kMaxPendingBytes <= 32 << 10);

int64_t WorkBytes(const google::protobuf::MessageLite& request);
// The bytes that a request holds once its input became `ids` and was freed.
int64_t HeldBytes(const google::protobuf::MessageLite& request,
                  std::span<const int32_t> ids);

// The bytes that a Score call holds for `n_ids` tokens, each counted once, and
// a reply of `reply_bytes` on the wire: its continuations as ids, those of one
// continuation in the engine, and the reply.
int64_t ScoreBytes(int64_t n_ids, int64_t reply_bytes);

// The bytes of a call that turns `n_ids` ids into `text_bytes` bytes of text.
int64_t DetokenizeBytes(int64_t n_ids, int64_t text_bytes);

// Bytes on the wire: exact for ids, an upper bound for a step's output.
int64_t WireBytes(std::span<const int32_t> ids);
int64_t WireBytes(const worker::StepOutput& output);

// The bytes of text of the ids; counting stops beyond kMaxReplyBytes. `stop` is
// called now and then. Errors: those of `stop`.
absl::StatusOr<int64_t> TextBytes(const worker::Tokenizer& tokenizer,
                                  std::span<const int32_t> ids,
                                  bool render_special, StopCheck stop);

// Checks the size of a reply. Errors: kInvalidArgument with both numbers and
// `advice` beyond kMaxReplyBytes.
absl::Status CheckReplyBytes(int64_t bytes, absl::string_view advice);

// Counts a reply that is collected until its call ends, in the memory that the
// call holds.
class ReplyMeter {
 public:
  ReplyMeter() = default;
  // `share` is the memory that the call holds already. It includes
  // `reply_bytes` of the reply on the wire.
  explicit ReplyMeter(ByteBudget::Share share, int64_t reply_bytes = 0)
      : share_(std::move(share)),
        first_held_(share_.bytes()),
        first_bytes_(reply_bytes),
        reply_bytes_(reply_bytes) {}

  // Makes room for `bytes` more on the wire.
  // Errors: kResourceExhausted beyond kMaxReplyBytes; those of
  // ByteBudget::Share::Grow.
  absl::Status Add(int64_t bytes);
  // The reply is complete: it takes `bytes` of memory until it is sent.
  void SetFinalBytes(int64_t bytes) { share_.Shrink(bytes); }

 private:
  ByteBudget::Share share_;
  int64_t first_held_ = 0;
  int64_t first_bytes_ = 0;  // the reply's bytes, held at first
  int64_t reply_bytes_ = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_MESSAGE_BYTES_H_
