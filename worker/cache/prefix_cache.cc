#include "worker/cache/prefix_cache.h"

#include <utility>

namespace plimsoll::worker {

PrefixCache::PrefixCache(int64_t page_tokens, int64_t n_snapshots)
    : page_tokens_(page_tokens), most_replies_(n_snapshots / 2) {
  for (int64_t snapshot = n_snapshots - 1; snapshot >= 0; --snapshot) {
    free_snapshots_.push_back(snapshot);
  }
}

PrefixCache::~PrefixCache() {
  std::vector<int32_t> pages;
  while (!owners_.empty()) {
    Node& root = owners_.begin()->second.root;
    Remove(*root.children.begin()->second, pages);
  }
}

std::vector<int32_t> PrefixCache::Page(std::span<const int32_t> tokens,
                                       int64_t i) const {
  const auto begin = tokens.begin() + i * page_tokens_;
  return {begin, begin + page_tokens_};
}

void PrefixCache::Touch(Node& node) {
  Owner& owner = *node.owner;
  if (node.is_listed) {
    pages_.Unlist(owner.pages, node.last_used, node.page_entry);
  }
  if (node.snapshot) UnlistSnapshot(node);
  node.last_used = ++clock_;
  if (node.is_listed) {
    pages_.List(owner.pages, node.last_used, node.page_entry);
  }
  if (node.snapshot) ListSnapshot(node);
}

PrefixCache::Node& PrefixCache::AddNode(Node& parent, Children::iterator at) {
  at->second = std::make_unique<Node>();
  Node& node = *at->second;
  node.parent = &parent;
  node.owner = parent.owner;
  node.at = at;
  node.page_entry = Ages::NewEntry(&node);
  node.snapshot_entry = Ages::NewEntry(&node);
  pages_.Count(node.owner->pages, 1);
  ListIfItMayGo(parent);
  return node;
}

void PrefixCache::ListIfItMayGo(Node& node) {
  const bool may_go =
      node.parent != nullptr && !node.is_used && node.children.empty();
  if (may_go == node.is_listed) return;
  node.is_listed = may_go;
  if (may_go) {
    pages_.List(node.owner->pages, node.last_used, node.page_entry);
  } else {
    pages_.Unlist(node.owner->pages, node.last_used, node.page_entry);
  }
}

void PrefixCache::MarkUnused(int32_t page) {
  Node& node = *by_page_.at(page);
  if (!node.is_used) return;
  node.is_used = false;
  ++n_unused_;
  ListIfItMayGo(node);
}

void PrefixCache::MarkUsed(int32_t page) {
  Node& node = *by_page_.at(page);
  if (node.is_used) return;
  node.is_used = true;
  --n_unused_;
  ListIfItMayGo(node);
}

PrefixCache::Hit PrefixCache::Look(const std::string& owner,
                                   std::span<const int32_t> tokens) const {
  Hit hit;
  const auto known = owners_.find(owner);
  if (known == owners_.end()) return hit;
  const Node* node = &known->second.root;
  for (int64_t i = 0; i < WholePages(tokens); ++i) {
    const auto child = node->children.find(Page(tokens, i));
    if (child == node->children.end()) break;
    node = child->second.get();
    hit.pages.push_back(node->page);
    if (node->snapshot) {
      hit.n_with_snapshot = i + 1;
      hit.snapshot = node->snapshot;
    }
  }
  return hit;
}

PrefixCache::Hit PrefixCache::Find(const std::string& owner,
                                   std::span<const int32_t> tokens) {
  Hit hit = Look(owner, tokens);
  for (const int32_t page : hit.pages) Touch(*by_page_.at(page));
  return hit;
}

PrefixCache::Owner& PrefixCache::OwnerOf(const std::string& name) {
  const auto [at, is_new] = owners_.try_emplace(name);
  Owner& owner = at->second;
  if (is_new) {
    owner.name = &at->first;
    owner.root.owner = &owner;
  }
  return owner;
}

void PrefixCache::DropIfEmpty(Owner& owner) {
  if (owner.root.children.empty()) owners_.erase(owners_.find(*owner.name));
}

std::vector<int32_t> PrefixCache::Insert(const std::string& owner,
                                         std::span<const int32_t> tokens,
                                         std::span<const int32_t> pages) {
  std::vector<int32_t> replaced;
  if (WholePages(tokens) == 0) return replaced;
  Node* node = &OwnerOf(owner).root;
  for (int64_t i = 0; i < WholePages(tokens); ++i) {
    const int32_t page = pages[static_cast<size_t>(i)];
    const auto [at, is_new] = node->children.try_emplace(Page(tokens, i));
    node = is_new ? &AddNode(*node, at) : at->second.get();
    if (node->page != page) {
      if (!is_new) {
        if (node->is_used) break;
        MarkUsed(node->page);
        by_page_.erase(node->page);
        replaced.push_back(node->page);
      }
      node->page = page;
      by_page_[page] = node;
    }
    Touch(*node);
  }
  return replaced;
}

PrefixCache::Node* PrefixCache::Walk(const std::string& owner,
                                     std::span<const int32_t> tokens) {
  const auto known = owners_.find(owner);
  if (known == owners_.end()) return nullptr;
  Node* node = &known->second.root;
  for (int64_t i = 0; i < WholePages(tokens); ++i) {
    const auto child = node->children.find(Page(tokens, i));
    if (child == node->children.end()) return nullptr;
    node = child->second.get();
  }
  return node->parent == nullptr ? nullptr : node;
}

std::optional<int64_t> PrefixCache::KeepSnapshot(
    const std::string& owner, std::span<const int32_t> tokens, SnapshotOf of) {
  Node* const node = Walk(owner, tokens);
  if (node == nullptr || node->snapshot) return std::nullopt;
  const std::optional<int64_t> place = TakePlaceFor(*node, of);
  if (!place) return std::nullopt;
  node->snapshot = place;
  node->snapshot_of = of;
  CountSnapshot(*node, 1);
  ListSnapshot(*node);
  return place;
}

std::optional<int64_t> PrefixCache::TakePlaceFor(Node& node, SnapshotOf of) {
  Node& before = *node.parent;
  const bool is_reply = of == SnapshotOf::kReply;
  if (is_reply && before.snapshot && before.snapshot_of == of) {
    return TakeSnapshot(before);
  }
  const bool has_most = is_reply && n_replies_ >= most_replies_;
  if (!free_snapshots_.empty() && !has_most) {
    const int64_t place = free_snapshots_.back();
    free_snapshots_.pop_back();
    return place;
  }
  const SnapshotOf from = has_most ? of : SnapshotOf::kPrompt;
  Node* const oldest = AllOf(from).FirstFor(SnapshotsOf(node, from), 1);
  if (oldest == nullptr) return std::nullopt;
  return TakeSnapshot(*oldest);
}

void PrefixCache::ForgetSnapshot(const std::string& owner,
                                 std::span<const int32_t> tokens) {
  Node* const node = Walk(owner, tokens);
  if (node == nullptr || !node->snapshot) return;
  free_snapshots_.push_back(TakeSnapshot(*node));
}

int64_t PrefixCache::TakeSnapshot(Node& node) {
  UnlistSnapshot(node);
  CountSnapshot(node, -1);
  return *std::exchange(node.snapshot, std::nullopt);
}

void PrefixCache::ListSnapshot(Node& node) {
  AllOf(node.snapshot_of)
      .List(SnapshotsOf(node, node.snapshot_of), node.last_used,
            node.snapshot_entry);
}

void PrefixCache::UnlistSnapshot(Node& node) {
  AllOf(node.snapshot_of)
      .Unlist(SnapshotsOf(node, node.snapshot_of), node.last_used,
              node.snapshot_entry);
}

void PrefixCache::CountSnapshot(Node& node, int64_t change) {
  AllOf(node.snapshot_of).Count(SnapshotsOf(node, node.snapshot_of), change);
  if (node.snapshot_of == SnapshotOf::kReply) n_replies_ += change;
}

std::optional<int32_t> PrefixCache::ForgetOldest(const std::string& owner,
                                                 int64_t n_new) {
  const auto known = owners_.find(owner);
  Node* node = known == owners_.end()
                   ? nullptr
                   : pages_.FirstFor(known->second.pages, n_new);
  if (node == nullptr) node = pages_.First();
  return ForgetLeaf(node);
}

std::optional<int32_t> PrefixCache::ForgetFor(const std::string& owner,
                                              int64_t n_new) {
  const auto known = owners_.find(owner);
  if (known != owners_.end()) {
    return ForgetLeaf(pages_.FirstFor(known->second.pages, n_new));
  }
  const Ages::Owner newcomer;
  return ForgetLeaf(pages_.FirstFor(newcomer, n_new));
}

std::optional<int32_t> PrefixCache::ForgetLeaf(Node* node) {
  if (node == nullptr) return std::nullopt;
  const int32_t page = node->page;
  Owner& owner = *node->owner;
  RemoveLeaf(*node);
  DropIfEmpty(owner);
  return page;
}

void PrefixCache::Forget(int32_t page, std::vector<int32_t>& pages) {
  pages.clear();
  if (const auto found = by_page_.find(page); found != by_page_.end()) {
    Remove(*found->second, pages);
  }
}

void PrefixCache::RemoveLeaf(Node& node) {
  // A page in use is not listed.
  if (!node.is_used) MarkUsed(node.page);
  if (node.snapshot) free_snapshots_.push_back(TakeSnapshot(node));
  by_page_.erase(node.page);
  pages_.Count(node.owner->pages, -1);
  Node& parent = *node.parent;
  parent.children.erase(node.at);
  ListIfItMayGo(parent);
}

void PrefixCache::Remove(Node& node, std::vector<int32_t>& pages) {
  const Node* const last = &node;
  Owner& owner = *node.owner;
  Node* at = &node;
  for (bool is_done = false; !is_done;) {
    if (!at->children.empty()) {
      at = at->children.begin()->second.get();
      continue;
    }
    pages.push_back(at->page);
    is_done = at == last;
    Node* const parent = at->parent;
    RemoveLeaf(*at);
    at = parent;
  }
  DropIfEmpty(owner);
}

}  // namespace plimsoll::worker
