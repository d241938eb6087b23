#include "worker/cache/prefix_cache.h"

#include <utility>

namespace plimsoll::worker {

PrefixCache::PrefixCache(int64_t page_tokens, int64_t n_snapshots)
    : page_tokens_(page_tokens) {
  for (int64_t snapshot = n_snapshots - 1; snapshot >= 0; --snapshot) {
    free_snapshots_.push_back(snapshot);
  }
}

PrefixCache::~PrefixCache() {
  std::vector<int32_t> pages;
  for (auto& [owner, root] : roots_) {
    while (!root.children.empty()) {
      Remove(*root.children.begin()->second, pages);
    }
  }
}

std::vector<int32_t> PrefixCache::Page(std::span<const int32_t> tokens,
                                       int64_t i) const {
  const auto begin = tokens.begin() + i * page_tokens_;
  return {begin, begin + page_tokens_};
}

void PrefixCache::Touch(Node& node) {
  by_use_.erase(node.last_used);
  node.last_used = ++clock_;
  by_use_[node.last_used] = &node;
}

PrefixCache::Hit PrefixCache::Look(const std::string& owner,
                                   std::span<const int32_t> tokens) const {
  Hit hit;
  const auto root = roots_.find(owner);
  if (root == roots_.end()) return hit;
  const Node* node = &root->second;
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

std::vector<int32_t> PrefixCache::Insert(
    const std::string& owner, std::span<const int32_t> tokens,
    std::span<const int32_t> pages,
    absl::FunctionRef<bool(int32_t page)> may_go) {
  std::vector<int32_t> replaced;
  if (WholePages(tokens) == 0) return replaced;
  Node* node = &roots_[owner];
  for (int64_t i = 0; i < WholePages(tokens); ++i) {
    const int32_t page = pages[static_cast<size_t>(i)];
    const auto [at, is_new] = node->children.try_emplace(Page(tokens, i));
    if (is_new) {
      at->second = std::make_unique<Node>();
      at->second->parent = node;
      at->second->at = at;
    }
    node = at->second.get();
    if (node->page != page) {
      if (!is_new) {
        if (!may_go(node->page)) break;
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
  const auto root = roots_.find(owner);
  if (root == roots_.end()) return nullptr;
  Node* node = &root->second;
  for (int64_t i = 0; i < WholePages(tokens); ++i) {
    const auto child = node->children.find(Page(tokens, i));
    if (child == node->children.end()) return nullptr;
    node = child->second.get();
  }
  return node->parent == nullptr ? nullptr : node;
}

std::optional<int64_t> PrefixCache::KeepSnapshot(
    const std::string& owner, std::span<const int32_t> tokens) {
  Node* node = Walk(owner, tokens);
  if (node == nullptr || node->snapshot) return std::nullopt;
  if (free_snapshots_.empty()) {
    for (const auto& [used, oldest] : by_use_) {
      if (!oldest->snapshot) continue;
      free_snapshots_.push_back(*std::exchange(oldest->snapshot, std::nullopt));
      break;
    }
  }
  if (free_snapshots_.empty()) return std::nullopt;
  node->snapshot = free_snapshots_.back();
  free_snapshots_.pop_back();
  return node->snapshot;
}

std::optional<int32_t> PrefixCache::ForgetOldest(
    absl::FunctionRef<bool(int32_t page)> may_go) {
  for (const auto& [used, node] : by_use_) {
    if (!node->children.empty() || !may_go(node->page)) continue;
    std::vector<int32_t> pages;
    Remove(*node, pages);
    return pages.front();
  }
  return std::nullopt;
}

void PrefixCache::Forget(int32_t page, std::vector<int32_t>& pages) {
  pages.clear();
  if (const auto found = by_page_.find(page); found != by_page_.end()) {
    Remove(*found->second, pages);
  }
}

void PrefixCache::Remove(Node& node, std::vector<int32_t>& pages) {
  const Node* const last = &node;
  Node* at = &node;
  for (bool is_done = false; !is_done;) {
    if (!at->children.empty()) {
      at = at->children.begin()->second.get();
      continue;
    }
    pages.push_back(at->page);
    by_page_.erase(at->page);
    by_use_.erase(at->last_used);
    if (at->snapshot) free_snapshots_.push_back(*at->snapshot);
    is_done = at == last;
    Node* const parent = at->parent;
    parent->children.erase(at->at);
    at = parent;
  }
}

}  // namespace plimsoll::worker
