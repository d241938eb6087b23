// Renders conversations with the chat template of a model's own file.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_MODEL_TEMPLATE_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_MODEL_TEMPLATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "planner/gguf/gguf_header.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/jinja/syntax/template.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// The name of the chat format if the model's own template renders the chat.
inline constexpr absl::string_view kTemplateFormat = "template";

// The values that a template can read besides a conversation.
struct TemplateInputs {
  bool add_generation_prompt = true;  // opens the next reply at the end
  absl::Time now = absl::UnixEpoch();
  absl::string_view arguments = {};  // more variables, as a JSON object
};

// Immutable, so thread-safe.
class ModelTemplate {
 public:
  // The template of the file, or null if it has none.
  // Errors: kInvalidArgument naming the template's line.
  static absl::StatusOr<std::shared_ptr<const ModelTemplate>> Load(
      const planner::GgufHeader& header);

  // Renders the conversation as the template says; `tokenizer` is the file's.
  // The text of messages, tools and arguments is content; everything else is
  // scaffold.
  // Errors: kInvalidArgument naming the template's line, for calls, tools and
  // arguments that are not JSON, and beyond the limits of RenderChat.
  absl::StatusOr<std::vector<ChatSegment>> Render(
      const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages,
      const std::vector<Tool>& tools, const TemplateInputs& inputs) const;

  // The marks of reasoning and calls in the model's replies.
  const ReplyFormat& reply_format() const { return reply_format_; }
  // The constant strings in the template's tags, each once. They include all
  // strings that a template looks for in a message.
  const std::vector<std::string>& strings() const { return strings_; }

 private:
  ModelTemplate(jinja::Template program, ReplyFormat reply_format,
                std::vector<std::string> strings, std::optional<int32_t> eos)
      : program_(std::move(program)),
        reply_format_(std::move(reply_format)),
        strings_(std::move(strings)),
        eos_(eos) {}

  const jinja::Template program_;
  const ReplyFormat reply_format_;
  const std::vector<std::string> strings_;
  const std::optional<int32_t> eos_;
};

// Token ids of a rendered conversation. Control tokens are found in scaffold
// only; between them, scaffold and content are one text, so that the cutting of
// words does not depend on their origin. BOS comes once, if the model's rule or
// the template adds it.
// Errors: those of CheckFits, before anything is tokenised; those of
// limits.stop.
absl::StatusOr<std::vector<int32_t>> EncodeTemplated(
    const Tokenizer& tokenizer, const std::vector<ChatSegment>& segments,
    const EncodeLimits& limits = {});

// Like EncodeTemplated, for a part that follows a control token: BOS comes only
// if the template writes it.
absl::StatusOr<std::vector<int32_t>> EncodeTemplatedText(
    const Tokenizer& tokenizer, const std::vector<ChatSegment>& segments,
    const EncodeLimits& limits = {});

// A control token in scaffold: the bytes [begin, end) of the scaffold.
struct ScaffoldToken {
  size_t begin;
  size_t end;
  int32_t id;
};

// The control tokens of a scaffold, in order, as EncodeTemplated finds them.
// Errors: those of `stop`.
absl::StatusOr<std::vector<ScaffoldToken>> FindControlTokens(
    const Tokenizer& tokenizer, absl::string_view scaffold,
    StopCheck stop = NeverStop);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_MODEL_TEMPLATE_H_
