// Finds pages of the KV cache by the tokens they hold, so that sequences which
// begin alike can share them. A pure index of page numbers.
#ifndef PLIMSOLL_WORKER_CACHE_PREFIX_CACHE_H_
#define PLIMSOLL_WORKER_CACHE_PREFIX_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace plimsoll::worker {

// Each owner has a tree. A node is a whole page of tokens that follows the
// pages of its parents; tokens are compared one by one. A page is in at most
// one node. Beside its page a node may have a snapshot: what layers without
// pages keep after its last token. A sequence with such layers cannot begin
// behind a node without a snapshot.
class PrefixCache {
 public:
  // `n_snapshots` can be kept; 0 if all layers have pages, or none is kept.
  PrefixCache(int64_t page_tokens, int64_t n_snapshots);
  // Not recursive, because a chain of nodes is as long as a context.
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Hit {
    std::vector<int32_t> pages;  // in order, from the first token on
    // The most pages, from the first on, that end with a snapshot; and that
    // snapshot.
    int64_t n_with_snapshot = 0;
    std::optional<int64_t> snapshot;
  };
  // Finds the longest beginning of `tokens` that is known, in whole pages. Its
  // nodes count as used now.
  Hit Find(const std::string& owner, std::span<const int32_t> tokens);

  // Finds what Find does, but no node counts as used.
  Hit Look(const std::string& owner, std::span<const int32_t> tokens) const;

  // Remembers `pages`, which hold the whole pages of `tokens`. If a node has
  // another page already, that page is replaced if `may_go` allows it.
  // Otherwise the rest of `pages` is left out, because whoever uses the page of
  // a node also uses the pages of its parents. Returns the replaced pages.
  std::vector<int32_t> Insert(const std::string& owner,
                              std::span<const int32_t> tokens,
                              std::span<const int32_t> pages,
                              absl::FunctionRef<bool(int32_t page)> may_go);

  // A place for the snapshot after `tokens`, which are whole pages. It is a
  // free one, or that of the node that was used longest ago. Nothing if the
  // tokens are unknown or have a snapshot already, or if none can be kept.
  std::optional<int64_t> KeepSnapshot(const std::string& owner,
                                      std::span<const int32_t> tokens);

  // Forgets the page that was used longest ago, among nodes without children
  // whose page `may_go` allows. Returns the page, if there was one.
  std::optional<int32_t> ForgetOldest(
      absl::FunctionRef<bool(int32_t page)> may_go);
  // Forgets a page and all pages that follow it, and sets `pages` to all of
  // them. Sets it to nothing if the page is unknown.
  void Forget(int32_t page, std::vector<int32_t>& pages);

  bool Has(int32_t page) const { return by_page_.contains(page); }
  int64_t size() const { return static_cast<int64_t>(by_page_.size()); }

 private:
  struct Node;
  using Children = std::map<std::vector<int32_t>, std::unique_ptr<Node>>;
  struct Node {
    Node* parent = nullptr;  // null for a root
    Children::iterator at;   // in the parent's children
    Children children;
    int32_t page = -1;
    std::optional<int64_t> snapshot;
    int64_t last_used = 0;
  };

  void Touch(Node& node);
  // Forgets a node and the nodes below it, and appends their pages.
  void Remove(Node& node, std::vector<int32_t>& pages);
  // The node that holds the last whole page of `tokens`, or null.
  Node* Walk(const std::string& owner, std::span<const int32_t> tokens);
  // The tokens of page `i`.
  std::vector<int32_t> Page(std::span<const int32_t> tokens, int64_t i) const;
  int64_t WholePages(std::span<const int32_t> tokens) const {
    return static_cast<int64_t>(tokens.size()) / page_tokens_;
  }

  int64_t page_tokens_;
  int64_t clock_ = 0;
  std::map<std::string, Node> roots_;
  std::map<int32_t, Node*> by_page_;
  std::map<int64_t, Node*> by_use_;  // last_used -> node
  std::vector<int64_t> free_snapshots_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PREFIX_CACHE_H_
