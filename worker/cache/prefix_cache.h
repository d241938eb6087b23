// Pages of the KV cache by the tokens they hold, so that sequences which begin
// alike share them: a pure index, of page numbers.
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

// A tree for each owner: a node is a whole page of tokens behind those of its
// parents, compared token by token. A page is in at most one node. Beside its
// page a node may have rings: the state of sliding-window layers after its last
// token, without which a sequence with such layers cannot begin there.
class PrefixCache {
 public:
  // `n_rings` = rings there are to keep; 0 where no layer has any, or none is
  // to be kept.
  PrefixCache(int64_t page_tokens, int64_t n_rings);
  // Without recursion: a chain is as long as a context.
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Hit {
    std::vector<int32_t> pages;  // in order, from the first token on
    // The longest beginning, in pages, that rings are kept of, and which.
    int64_t n_with_rings = 0;
    std::optional<int64_t> ring;
  };
  // The longest beginning of `tokens` that is there, in whole pages. It counts
  // as used now.
  Hit Find(const std::string& owner, std::span<const int32_t> tokens);

  // Remembers `pages`, which hold the whole pages of `tokens`. Where a node is
  // there with another page, that page is replaced if `may_go` is true of it,
  // else the rest is left out: whoever has the page of a node has those of all
  // before it, too. Returns the pages that were replaced.
  std::vector<int32_t> Insert(const std::string& owner,
                              std::span<const int32_t> tokens,
                              std::span<const int32_t> pages,
                              absl::FunctionRef<bool(int32_t page)> may_go);

  // A ring to keep the state after `tokens` in, which are whole pages: a free
  // one, or that of the node that was used longest ago. Nothing if the tokens
  // are not there, or have rings already, or there are none to keep.
  std::optional<int64_t> KeepRing(const std::string& owner,
                                  std::span<const int32_t> tokens);

  // Forgets the page that was used longest ago among those without children for
  // which `may_go` is true.
  std::optional<int32_t> ForgetOldest(
      absl::FunctionRef<bool(int32_t page)> may_go);
  // Forgets a page, and all that follow it; sets `pages` to them all. None if
  // it is not there.
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
    std::optional<int64_t> ring;
    int64_t last_used = 0;
  };

  void Touch(Node& node);
  // Forgets the node and those below; appends their pages.
  void Remove(Node& node, std::vector<int32_t>& pages);
  // The node that the whole pages of `tokens` lead to, or null.
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
  std::vector<int64_t> free_rings_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PREFIX_CACHE_H_
