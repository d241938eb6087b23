// The frame of a session whose chat is rendered by the model's own template:
// where its turns begin and end, found and checked by rendering.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TEMPLATE_FRAME_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TEMPLATE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/model_template.h"
#include "worker/text/chat/template_probe.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// The parts of a rendered conversation. It is `opening`, then for each turn the
// user's message, `after_user` and the reply, with `after_reply` between two
// turns.
struct FrameText {
  MarkedText opening;       // with the system message, if there is one
  std::string after_user;   // also the generation prompt
  std::string after_reply;  // begins with the token that ends a reply
  // Behind their last control tokens, `opening` and `after_reply` end with the
  // same text. A turn begins with it.
  std::string before_user;

  size_t opening_end() const { return opening.size() - before_user.size(); }
  size_t reply_end() const { return after_reply.size() - before_user.size(); }
};

// Chats begin with this.
struct ChatBeginning {
  const std::string* system = nullptr;  // the system message, if there is one
  absl::Time now;                       // the time of the chat, which stays
};

// Immutable, so thread-safe.
class TemplateFrame {
 public:
  // Constants of a template that are longer than this are ignored: it is
  // assumed that the template does not look for them in messages.
  static constexpr size_t kMaxProbeBytes = 256;
  // The most constants that a template may have, without the longer ones.
  static constexpr size_t kMaxProbes = 512;

  // Finds the frame of chats whose beginning is `chat`. Their turns can be
  // cut: if any number of oldest turns leave, the rest equals the template's
  // rendering of the system message and the remaining turns, byte for byte and
  // token for token. This is checked with conversations whose messages contain
  // the template's own constants.
  // Errors: kUnimplemented saying why the template's turns cannot be cut;
  // kOutOfRange if the system message has too many bytes for limits.max_tokens;
  // those of limits.stop.
  static absl::StatusOr<std::shared_ptr<const TemplateFrame>> Find(
      const Tokenizer& tokenizer, std::shared_ptr<const ModelTemplate> program,
      const ChatBeginning& chat, const EncodeLimits& limits = {});

  // The frame as tokens. `after_user` is empty, because EncodeMessage includes
  // it.
  const ChatFrame& ids() const { return ids_; }
  const FrameText& text() const { return text_; }

  // Token ids of a turn up to its reply: the user's message with the template's
  // text around it. `tokenizer` is the one that Find got.
  // Errors: kInvalidArgument if the template refuses the message, or renders it
  // differently in other turns; kOutOfRange beyond limits.max_tokens; those of
  // limits.stop.
  absl::StatusOr<std::vector<int32_t>> EncodeMessage(
      const Tokenizer& tokenizer, const std::string& message,
      const EncodeLimits& limits = {}) const;

  // Like EncodeMessage, followed by a reply that is known as text, in the
  // template's rendering.
  absl::StatusOr<std::vector<int32_t>> EncodeTurn(
      const Tokenizer& tokenizer, const std::string& message,
      const std::string& reply, const EncodeLimits& limits = {}) const;

 private:
  TemplateFrame(std::shared_ptr<const ModelTemplate> program,
                const ChatBeginning& chat);

  // The part of a rendering that `turn` adds, from the message on. It must be
  // the same as a first and as a second turn.
  absl::StatusOr<MarkedText> RenderTurn(const Tokenizer& tokenizer,
                                        const ProbeTurn& turn, bool has_reply,
                                        StopCheck stop) const;
  absl::StatusOr<std::vector<int32_t>> Encode(const Tokenizer& tokenizer,
                                              const ProbeTurn& turn,
                                              bool has_reply,
                                              const EncodeLimits& limits) const;

  const std::shared_ptr<const ModelTemplate> program_;
  const std::optional<std::string> system_;
  const absl::Time now_;
  FrameText text_;
  ChatFrame ids_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TEMPLATE_FRAME_H_
