#include "worker/sampling/token_history.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace plimsoll::worker {

TokenHistory::TokenHistory(int64_t prefix_tokens, std::vector<int32_t> ids)
    : prefix_tokens_(prefix_tokens), recent_(std::move(ids)) {
  const auto end =
      recent_.begin() +
      std::min(prefix_tokens_, static_cast<int64_t>(recent_.size()));
  prefix_.assign(recent_.begin(), end);
  recent_.erase(recent_.begin(), end);
}

void TokenHistory::Reserve(int64_t n_live) {
  prefix_.reserve(static_cast<size_t>(prefix_tokens_));
  recent_.reserve(
      static_cast<size_t>(std::max<int64_t>(n_live - prefix_tokens_, 0)));
}

void TokenHistory::Append(int32_t id) {
  if (static_cast<int64_t>(prefix_.size()) < prefix_tokens_) {
    prefix_.push_back(id);
  } else {
    recent_.push_back(id);
  }
}

void TokenHistory::RemoveLast() {
  if (!recent_.empty()) {
    recent_.pop_back();
  } else {
    PLIMSOLL_CHECK(!prefix_.empty(), "there is a token to take back");
    prefix_.pop_back();
  }
}

void TokenHistory::WholeTurns(std::vector<int64_t>& turns) const {
  turns.clear();
  for (size_t i = 1; i < turns_.size(); ++i) {
    turns.push_back(turns_[i] - first_recent());
  }
}

void TokenHistory::Evict(int64_t n_tokens) {
  PLIMSOLL_CHECK(n_tokens <= static_cast<int64_t>(recent_.size()),
                 "only tokens after the prefix leave");
  recent_.erase(recent_.begin(), recent_.begin() + n_tokens);
  evicted_ += n_tokens;
  while (turns_.size() > 1 && turns_[1] <= first_recent()) turns_.pop_front();
}

int32_t TokenHistory::TokenAt(int64_t position) const {
  const int64_t index = IndexAt(position);
  if (index < prefix_tokens_) return prefix_[static_cast<size_t>(index)];
  return recent_[static_cast<size_t>(index - first_recent())];
}

std::vector<int32_t> TokenHistory::Oldest(int64_t n) const {
  PLIMSOLL_CHECK(evicted_ == 0, "the first tokens are there");
  const int64_t n_prefix = std::min(n, static_cast<int64_t>(prefix_.size()));
  std::vector<int32_t> ids(prefix_.begin(), prefix_.begin() + n_prefix);
  ids.insert(ids.end(), recent_.begin(), recent_.begin() + (n - n_prefix));
  return ids;
}

void TokenHistory::Newest(int64_t n, std::vector<int32_t>& ids) const {
  const int64_t n_recent = std::min(n, static_cast<int64_t>(recent_.size()));
  const int64_t n_prefix =
      std::min(n - n_recent, static_cast<int64_t>(prefix_.size()));
  ids.assign(prefix_.end() - n_prefix, prefix_.end());
  ids.insert(ids.end(), recent_.end() - n_recent, recent_.end());
}

}  // namespace plimsoll::worker
