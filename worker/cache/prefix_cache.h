// Finds pages of the KV cache by the tokens they hold, so that sequences which
// begin alike can share them. A pure index of page numbers.
#ifndef PLIMSOLL_WORKER_CACHE_PREFIX_CACHE_H_
#define PLIMSOLL_WORKER_CACHE_PREFIX_CACHE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/cache/fair_ages.h"

namespace plimsoll::worker {

// Each owner has a tree. A node is a whole page of tokens that follows the
// pages of its parents; tokens are compared one by one. A page is in at most
// one node. Beside its page a node may have a snapshot: what layers without
// pages keep after its last token. A sequence with such layers cannot begin
// behind a node without a snapshot.
//
// A page that slots use stays. The next one that is forgotten is the one that
// was used longest ago among those of the owner that has most pages, so that no
// owner can push out the pages of those that have fewer. Snapshots are
// forgotten by the same rule. An owner's name is forgotten with its last page.
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

  // Remembers `pages`, which hold the whole pages of `tokens` and which a slot
  // uses. If a node has another page already, that page is replaced if no slot
  // uses it. Otherwise the rest of `pages` is left out, because whoever uses
  // the page of a node also uses the pages of its parents. Returns the replaced
  // pages.
  std::vector<int32_t> Insert(const std::string& owner,
                              std::span<const int32_t> tokens,
                              std::span<const int32_t> pages);
  // MarkUnused: no slot uses this known page any more. MarkUsed: a slot uses it
  // again.
  void MarkUnused(int32_t page);
  void MarkUsed(int32_t page);

  // The kind of a snapshot. Any request of the owner may share a snapshot of a
  // prompt. A snapshot of a reply serves only the next turn of its
  // conversation. At most half of all snapshots are snapshots of replies.
  enum class SnapshotOf { kPrompt, kReply };
  // Returns the place for the snapshot after `tokens`, which are whole pages. A
  // reply reuses the place of its snapshot one page earlier. Otherwise a free
  // place is taken. If none is free, the owner with the most snapshots of this
  // kind, counting the new one, loses the one that was used longest ago.
  // Replies with less than their half of all places take the place of a prompt
  // instead. Returns nothing if the tokens are unknown or have a snapshot
  // already, or if no place can be taken.
  std::optional<int64_t> KeepSnapshot(const std::string& owner,
                                      std::span<const int32_t> tokens,
                                      SnapshotOf of);
  // Forgets the snapshot after `tokens`, if there is one.
  void ForgetSnapshot(const std::string& owner,
                      std::span<const int32_t> tokens);

  // Forgets one page so that a slot of `owner` can use another one. `n_new` is
  // the number of pages that the owner will then have outside this index.
  // Returns the page, or nothing if slots use all pages.
  std::optional<int32_t> ForgetOldest(const std::string& owner, int64_t n_new);
  // Forgets one page so that `n_new` pages of `owner` can be remembered.
  // Returns nothing also if only owners that would have fewer pages could lose
  // one.
  std::optional<int32_t> ForgetFor(const std::string& owner, int64_t n_new);
  // Forgets a page and all pages that follow it, and sets `pages` to all of
  // them. Sets it to nothing if the page is unknown.
  void Forget(int32_t page, std::vector<int32_t>& pages);

  bool Has(int32_t page) const { return by_page_.contains(page); }
  int64_t size() const { return static_cast<int64_t>(by_page_.size()); }
  // Pages that no slot uses.
  int64_t n_unused() const { return n_unused_; }
  // Owners that have a page.
  int64_t n_owners() const { return static_cast<int64_t>(owners_.size()); }

 private:
  struct Node;
  struct Owner;
  using Children = std::map<std::vector<int32_t>, std::unique_ptr<Node>>;
  using Ages = FairAges<Node>;
  struct Node {
    Node* parent = nullptr;  // null for a root
    Owner* owner = nullptr;
    Children::iterator at;  // in the parent's children
    Children children;
    int32_t page = -1;
    std::optional<int64_t> snapshot;
    SnapshotOf snapshot_of = SnapshotOf::kPrompt;
    int64_t last_used = 0;
    bool is_used = true;     // by a slot
    bool is_listed = false;  // in pages_: it is unused and has no children
    Ages::Entry page_entry;
    Ages::Entry snapshot_entry;
  };
  struct Owner {
    const std::string* name = nullptr;  // its key in owners_
    Node root;
    Ages::Owner pages;
    std::array<Ages::Owner, 2> snapshots;  // by SnapshotOf
  };

  void Touch(Node& node);
  // Makes a node for the page of tokens at `at`, which the parent has no page
  // for yet.
  Node& AddNode(Node& parent, Children::iterator at);
  // Lists a node if its page may go, and only then.
  void ListIfItMayGo(Node& node);
  int64_t TakeSnapshot(Node& node);
  // Takes a place for a snapshot of the node, if it may have one.
  std::optional<int64_t> TakePlaceFor(Node& node, SnapshotOf of);
  // The node's owner among those of snapshots of a kind.
  static Ages::Owner& SnapshotsOf(Node& node, SnapshotOf of) {
    return node.owner->snapshots[static_cast<size_t>(of)];
  }
  Ages& AllOf(SnapshotOf of) { return snapshots_[static_cast<size_t>(of)]; }
  // Lists the node among those with a snapshot of its kind, and takes it off.
  void ListSnapshot(Node& node);
  void UnlistSnapshot(Node& node);
  // Counts one more snapshot of the node's kind, or one less.
  void CountSnapshot(Node& node, int64_t change);
  // Forgets one node without children.
  void RemoveLeaf(Node& node);
  // Forgets a node and the nodes below it, and appends their pages.
  void Remove(Node& node, std::vector<int32_t>& pages);
  // Forgets a node that may go, if there is one, and returns its page.
  std::optional<int32_t> ForgetLeaf(Node* node);
  Owner& OwnerOf(const std::string& name);
  // Forgets an owner without pages.
  void DropIfEmpty(Owner& owner);
  // The node that holds the last whole page of `tokens`, or null.
  Node* Walk(const std::string& owner, std::span<const int32_t> tokens);
  // The tokens of page `i`.
  std::vector<int32_t> Page(std::span<const int32_t> tokens, int64_t i) const;
  int64_t WholePages(std::span<const int32_t> tokens) const {
    return static_cast<int64_t>(tokens.size()) / page_tokens_;
  }

  int64_t page_tokens_;
  int64_t clock_ = 0;
  int64_t n_unused_ = 0;
  Ages pages_;                     // nodes whose page may go
  std::array<Ages, 2> snapshots_;  // nodes with a snapshot, by SnapshotOf
  int64_t most_replies_;           // snapshots of replies
  int64_t n_replies_ = 0;
  std::map<std::string, Owner> owners_;
  std::map<int32_t, Node*> by_page_;
  std::vector<int64_t> free_snapshots_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PREFIX_CACHE_H_
