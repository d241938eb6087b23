#include "worker/token_history.h"

namespace plimsoll::worker {

void TokenHistory::Add(int32_t id) {
  const auto index = static_cast<int64_t>(prompt_.size()) + n_generated_;
  if (index < roll_.prefix_tokens) pinned_.push_back(id);
  recent_[static_cast<size_t>(n_generated_) % recent_.size()] = id;
  ++n_generated_;
}

void TokenHistory::Evict() {
  evicted_ += roll_.evict_tokens;
  if (roll_.method == RollMethod::kRecompute) restarted_ = evicted_;
}

int32_t TokenHistory::TokenAt(int64_t position) const {
  const auto index = static_cast<size_t>(IndexAt(position));
  if (index < prompt_.size()) return prompt_[index];
  const size_t generated = index - prompt_.size();
  if (generated < pinned_.size()) return pinned_[generated];
  return recent_[generated % recent_.size()];
}

}  // namespace plimsoll::worker
