#include "worker/text/chat/reasoning_count.h"

namespace plimsoll::worker {
namespace {

// Whether there are tools decides if calls are looked for; which ones there are
// does not matter here.
ReplyReading WithoutTools(const ReplyReading& reading) {
  ReplyReading kept = {.format = reading.format,
                       .begins_reasoning = reading.begins_reasoning};
  if (!reading.tools.empty()) kept.tools.emplace_back();
  return kept;
}

}  // namespace

ReasoningCount::ReasoningCount(const ReplyReading& reading)
    : splitter_(WithoutTools(reading)) {}

void ReasoningCount::Push(absl::string_view bytes) {
  const bool was_reasoning = splitter_.is_reasoning();
  splitter_.Push(bytes, delta_);
  const bool has_reasoning = !delta_.reasoning.empty();
  delta_.Clear();
  if (!splitter_.is_reasoning()) {
    if (has_reasoning) ++n_tokens_;
    held_.clear();
    n_held_bytes_ = 0;
    return;
  }
  if (!was_reasoning) {
    if (has_reasoning) ++n_tokens_;
    return;
  }
  held_.push_back(bytes.size());
  n_held_bytes_ += bytes.size();
  while (!held_.empty() && n_held_bytes_ > splitter_.n_held()) {
    n_held_bytes_ -= held_.front();
    held_.pop_front();
    ++n_tokens_;
  }
  if (n_held_bytes_ > 0) return;
  // Tokens without bytes belong to no mark.
  n_tokens_ += static_cast<int64_t>(held_.size());
  held_.clear();
}

}  // namespace plimsoll::worker
