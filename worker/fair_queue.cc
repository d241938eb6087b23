#include "worker/fair_queue.h"

#include <algorithm>
#include <utility>

namespace plimsoll::worker {

void FairQueue::Push(int64_t id, int64_t n_tokens, const Claim& claim) {
  auto flow = std::find_if(flows_.begin(), flows_.end(),
                           [&](const Flow& f) { return f.claim == claim; });
  if (flow == flows_.end()) {
    flows_.push_back({.claim = claim, .items = {}});
    flow = flows_.end() - 1;
  }
  flow->items.push_back({id, n_tokens});
  ++size_;
}

std::optional<int64_t> FairQueue::Peek() {
  while (!flows_.empty()) {
    Flow& flow = flows_.front();
    if (!flow.has_turn) {
      flow.deficit += TokensOfTurn(flow.claim.priority);
      flow.has_turn = true;
    }
    const Item& item = flow.items.front();
    // Alone there is nobody to wait for.
    if (item.n_tokens <= flow.deficit || flows_.size() == 1) return item.id;
    flow.has_turn = false;
    std::rotate(flows_.begin(), flows_.begin() + 1, flows_.end());
  }
  return std::nullopt;
}

std::optional<int64_t> FairQueue::Pop() {
  const std::optional<int64_t> id = Peek();
  if (!id) return std::nullopt;
  Flow& flow = flows_.front();
  flow.deficit =
      std::max<int64_t>(flow.deficit - flow.items.front().n_tokens, 0);
  flow.items.pop_front();
  --size_;
  if (flow.items.empty()) flows_.pop_front();
  return id;
}

void FairQueue::Remove(int64_t id) {
  for (auto flow = flows_.begin(); flow != flows_.end(); ++flow) {
    const size_t n = std::erase_if(
        flow->items, [id](const Item& item) { return item.id == id; });
    if (n == 0) continue;
    --size_;
    if (flow->items.empty()) flows_.erase(flow);
    return;
  }
}

}  // namespace plimsoll::worker
