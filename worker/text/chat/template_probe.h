// Conversations that show how a template renders turns, and the rendering of
// them.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TEMPLATE_PROBE_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TEMPLATE_PROBE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/text/chat/marked_text.h"
#include "worker/text/chat/model_template.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

struct ProbeTurn {
  std::string message;
  std::string reply;
};

// Renders conversations of turns. The objects behind its pointers must outlive
// it.
struct ProbeRenderer {
  const Tokenizer& tokenizer;
  const ModelTemplate& program;
  const std::string* system;  // null without a system message
  absl::Time now;
  StopCheck stop;

  // Renders the turns. The last one has no reply; the generation prompt stands
  // in its place.
  // Errors: those of ModelTemplate::Render; those of `stop`.
  absl::StatusOr<MarkedText> Render(std::span<const ProbeTurn> turns) const;
};

// Turns whose messages and replies are plain words, all different.
std::vector<ProbeTurn> PlainTurns(size_t n);

// Turns whose messages and replies contain the strings that a template might
// look for: marks of reasoning, and the template's own constants, at the
// beginning, within and at the end. Constants of more than `max_bytes` are left
// out.
std::vector<ProbeTurn> TellingTurns(const ModelTemplate& program,
                                    size_t max_bytes);

// True if a template may show `written` as `shown`: white space at its ends may
// be missing.
bool IsShownAs(absl::string_view written, absl::string_view shown);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TEMPLATE_PROBE_H_
