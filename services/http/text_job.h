// A request for text, in one form for all dialects of HTTP.
#ifndef PLIMSOLL_SERVICES_HTTP_TEXT_JOB_H_
#define PLIMSOLL_SERVICES_HTTP_TEXT_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "plimsoll/v1/generation.pb.h"
#include "worker/text/schema/shapes/schema_options.h"

namespace plimsoll::services {

// The most replies that a request may ask for, to all its prompts together.
inline constexpr int kMaxChoices = 16;

struct ResponseDraft;

struct TextJob {
  // One request for each prompt; they differ only in the prompt.
  std::vector<v1::StreamGenerateRequest> prompts;
  // Replies to each prompt. The seed of the i-th reply is the request's seed
  // plus i. If n_choices is 0, there is one prompt without input, and the reply
  // says that the model is loaded.
  int n_choices = 1;
  // How long the model stays loaded without use from now on.
  std::optional<absl::Duration> keep_alive;
  // A key that requests share if they can reuse each other's work; empty: the
  // beginning of the prompt is the key.
  std::string affinity = "";
  // Tokens of context that a slot must have at least.
  int64_t least_n_ctx = 0;
  bool is_streamed = false;
  bool has_usage = false;  // whether a stream ends with its usage
  // Whether the format of a stream keeps the whole reply to its end.
  bool keeps_reply = false;
  // Bytes that the call holds to its end, in addition to its prompts.
  int64_t held_bytes = 0;
  // Bytes of JSON of earlier turns that were read beside the body.
  int64_t turn_bytes = 0;
  // The parts of the request that a reply of /v1/responses needs; null for
  // other paths.
  std::shared_ptr<ResponseDraft> response = nullptr;

  // True if the request asks only to unload the model once it is unused.
  bool IsUnload() const {
    return n_choices == 0 && keep_alive == absl::ZeroDuration();
  }
};

// The fields that all messages of a reply repeat.
struct ReplyHead {
  std::string id;               // the request's
  int64_t created_s = 0;        // Unix time
  std::string model;            // its name
  int64_t n_prompt_tokens = 0;  // tokens of the first prompt
  // Parts of the constraint that have no effect on the reply.
  worker::SchemaNotes constraint_notes = {};
  // The time that the request waited for the load of its model.
  absl::Duration load_time = absl::ZeroDuration();
};

// Writes a reply in one dialect; it writes the deltas of a stream as events.
// Used by one thread at a time.
class ReplyFormat {
 public:
  // A whole reply, or the next part of a reply. The last delta has `finish`.
  using Delta = v1::StreamGenerateResponse;

  virtual ~ReplyFormat() = default;
  // Appends the events for a delta of reply `index` to `events`.
  virtual void AppendDelta(int index, const Delta& delta,
                           std::string& events) = 0;
  // Appends the events after the ends of all replies.
  virtual void AppendEnd(std::string& events) = 0;
  // Appends the event of an error that ends the stream.
  virtual void AppendError(const absl::Status& status, std::string& events) = 0;
  // Writes all replies, in order.
  virtual std::string Whole(const std::vector<Delta>& replies) = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_TEXT_JOB_H_
