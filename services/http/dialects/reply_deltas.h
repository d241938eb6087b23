// Functions that the replies of several dialects share.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_REPLY_DELTAS_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_REPLY_DELTAS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// The text of a delta. A call that is not valid stays text, so nothing is lost.
std::string PlainText(const ReplyFormat::Delta& delta);
// The finish reason of a reply, in OpenAI's words.
const char* FinishWord(v1::FinishReason reason);

// Orders the deltas of one streamed reply so that nothing comes between the
// pieces of a call.
class DeltaOrder {
 public:
  // A piece of a call, or its end.
  struct Step {
    const v1::ToolCallDelta* piece = nullptr;  // null at the end
    const v1::ToolCall* call = nullptr;        // null at a piece
    bool had_pieces = false;  // true: the call that ends had pieces
  };
  // The texts and the steps of a delta. The steps point into it.
  struct Ordered {
    std::vector<Step> first;  // steps of the call that an earlier delta began
    std::string text;         // without text that was sent as pieces of a call
    std::vector<Step> then;
  };

  Ordered Of(const ReplyFormat::Delta& delta);

 private:
  uint32_t n_calls_ = 0;     // complete calls
  bool has_pieces_ = false;  // true: pieces of the next call have come
};

// Appends a comment with the loaded percentage of the model. Clients of
// server-sent events ignore comments.
void AppendLoadComment(int percent, std::string& events);

// Appends a server-sent event with a name.
void AppendNamedEvent(absl::string_view name, absl::string_view data,
                      std::string& events);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_REPLY_DELTAS_H_
