#include "worker/text/chat/template_probe.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/chat/chat_segments.h"

namespace plimsoll::worker {
namespace {

// Adds turns with `part` at both ends of, and within, messages and replies.
void AddTurns(absl::string_view part, std::vector<ProbeTurn>& turns) {
  // The number makes all messages different.
  const size_t n = turns.size();
  turns.push_back({absl::StrCat(part, "message", n, part),
                   absl::StrCat(part, "reply", n, part)});
  turns.push_back({absl::StrCat("what", n, part, "message"),
                   absl::StrCat("so", n, part, "reply")});
}

}  // namespace

absl::StatusOr<MarkedText> ProbeRenderer::Render(
    std::span<const ProbeTurn> turns) const {
  RETURN_IF_ERROR(stop());
  std::vector<ChatMessage> messages;
  messages.reserve(2 * turns.size() + 1);
  if (system != nullptr) messages.push_back({ChatRole::kSystem, *system});
  for (size_t i = 0; i < turns.size(); ++i) {
    messages.push_back({ChatRole::kUser, turns[i].message});
    if (i + 1 == turns.size()) break;
    messages.push_back({ChatRole::kAssistant, turns[i].reply});
  }
  ASSIGN_OR_RETURN(
      const std::vector<ChatSegment> segments,
      program.Render(tokenizer, messages, /*tools=*/{}, {.now = now}));
  return MarkedText(segments);
}

std::vector<ProbeTurn> PlainTurns(size_t n) {
  std::vector<ProbeTurn> turns;
  turns.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    turns.push_back({absl::StrCat("message", i), absl::StrCat("reply", i)});
  }
  return turns;
}

std::vector<ProbeTurn> TellingTurns(const ModelTemplate& program,
                                    size_t max_bytes) {
  std::vector<ProbeTurn> turns;
  const auto add_reasoning = [&turns](const MarkPair& marks) {
    if (marks.open.empty()) return;
    const std::string reply =
        absl::StrCat(marks.open, "thought", marks.close, "answer");
    turns.push_back({absl::StrCat("think", turns.size()), reply});
    turns.push_back({absl::StrCat("think", turns.size()),
                     absl::StrCat("thought", marks.close, "answer")});
  };
  for (const MarkPair& marks : kThinkMarks) add_reasoning(marks);
  add_reasoning(program.reply_format().reasoning);
  std::string all;
  for (const std::string& text : program.strings()) {
    if (text.empty() || text.size() > max_bytes) continue;
    AddTurns(text, turns);
    absl::StrAppend(&all, text, "and");
  }
  turns.push_back({all, all});
  turns.push_back({"say nothing", ""});
  turns.push_back({" \n spaces \n ", " \n spaces \n "});
  turns.push_back({"the last message", ""});
  return turns;
}

bool IsShownAs(absl::string_view written, absl::string_view shown) {
  return TrimChat(written) == TrimChat(shown) &&
         absl::StrContains(written, shown);
}

}  // namespace plimsoll::worker
