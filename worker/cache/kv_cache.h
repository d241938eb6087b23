// Keys and values of all slots: pages of full-attention layers, rings of
// sliding-window layers, as index arithmetic over the plan's two regions.
#ifndef PLIMSOLL_WORKER_CACHE_KV_CACHE_H_
#define PLIMSOLL_WORKER_CACHE_KV_CACHE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/buffer.h"
#include "kernels/tensor_view.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"
#include "worker/cache/prefix_cache.h"

namespace plimsoll::worker {

// The plan's regions kv_full, kv_window and kv_draft.
struct KvRegions {
  kernels::BufferView pages;
  kernels::BufferView rings;
  kernels::BufferView drafts = {};
};

// Consecutive layers whose keys and values lie on one device.
struct KvPart {
  const planner::ModelShape* shape;  // of these layers
  const planner::MemoryPlan* plan;
  KvRegions regions;
};

// Layers are counted over all parts. A slot has the same pages, and its rings
// the same place, on every device, so that one book is kept of all of them.
//
// Owned by the engine, used from the step thread only, but for threads that
// compute parts of a step: they read it, and nothing changes meanwhile. Never
// allocates device memory; the tables are sized once.
class KvCache {
 public:
  // At most `max_shared_pages` are known by their tokens, so that they can be
  // shared: those of sequences, and of ended ones until others need them.
  // Requires that the parts' plans are of the same context, slots and pages.
  explicit KvCache(std::span<const KvPart> parts, int64_t max_shared_pages = 0);
  // Of a model on one device.
  KvCache(const planner::ModelShape& shape, const planner::MemoryPlan& plan,
          const KvRegions& regions, int64_t max_shared_pages = 0);

  // True if `layer` keeps a ring instead of pages.
  bool IsRing(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)].is_ring;
  }

  // Where the tokens of a slot lie; not the bytes of its pages and rings.
  struct Slot {
    std::vector<kernels::PageEntry> pages;  // the prefix's first
    int64_t length = 0;
    int64_t prefix_tokens = 0;
    int64_t evicted = 0;
    int64_t next_page = 0;  // position of cell 0 of the next page
    // First position that rings still attend.
    int64_t live_begin = 0;
  };
  // What the slot holds.
  const Slot& Held(int64_t slot) const {
    return slots_[static_cast<size_t>(slot)];
  }
  // Makes an empty slot one that holds the same, in pages of its own, into
  // which, and into its rings, the caller copies their bytes.
  // Errors: kResourceExhausted if too few pages are free.
  absl::Status Restore(int64_t slot, const Slot& held);

  // What a slot shares with others.
  struct Shared {
    int64_t n_tokens = 0;   // of its beginning that are there
    int64_t n_matched = 0;  // that are known, but for rings; as many or more
    std::optional<int64_t> ring;  // to be copied into the slot's
  };
  // Begins the slot, which must be empty, with the whole pages of `tokens` that
  // `owner` has computed before. They are attended like its own and never
  // written.
  Shared Attach(int64_t slot, const std::string& owner,
                std::span<const int32_t> tokens);
  // Lets later sequences of `owner` share the slot's whole pages of `tokens`,
  // the first ones it has computed. Requires that none has left.
  void Publish(int64_t slot, const std::string& owner,
               std::span<const int32_t> tokens);
  // Where to keep the slot's rings, which are those after the published
  // `tokens`; nothing if they are kept already or cannot be.
  std::optional<int64_t> KeepRing(const std::string& owner,
                                  std::span<const int32_t> tokens) {
    return prefixes_.KeepRing(owner, tokens);
  }
  // Tokens of a page, the unit of sharing.
  int64_t page_tokens() const { return page_tokens_; }
  int64_t pages_per_slot() const { return pages_per_slot_; }
  // True if a beginning can be shared only with rings.
  bool NeedsRings() const { return has_rings_; }
  // True if rings can be kept.
  bool KeepsRings() const { return n_kept_rings_ > 0; }
  // All rings of a slot, and of a kept ring, as a number for Rings().
  static int64_t SlotRings(int64_t slot) { return slot; }
  int64_t KeptRings(int64_t ring) const {
    return static_cast<int64_t>(slots_.size()) + ring;
  }
  // All pages of a part, one after the other, and the bytes of one.
  kernels::BufferView Pool(size_t part) const {
    return parts_[part].regions.pages;
  }
  int64_t PageBytes(size_t part) const { return parts_[part].page_bytes; }
  // What of them is on a part's device; perhaps nothing.
  kernels::BufferView Rings(size_t part, int64_t i) const {
    const Part& p = parts_[part];
    return {p.regions.rings.data + i * p.ring_bytes, p.ring_bytes};
  }
  // Bytes of the pages and rings of a full slot, on all devices.
  int64_t SlotBytes() const;

  // Lays out an empty slot for a sequence whose first `prefix_tokens` tokens
  // never leave: they have pages of their own, the last one's tail stays empty.
  // Without it a slot has no prefix.
  void Begin(int64_t slot, int64_t prefix_tokens);
  // Makes room for positions [Length(slot), n_tokens) in the slot's pages.
  // Errors: kResourceExhausted if no page is left, and then nothing changed.
  absl::Status Extend(int64_t slot, int64_t n_tokens);
  // The oldest `n_tokens` after the prefix leave: pages without a live token
  // are given back, cells of rings are masked. Nothing moves. Requires that the
  // slot has them.
  void Evict(int64_t slot, int64_t n_tokens);
  // Pages that the slot lacks for `n_tokens` positions, and for as many as it
  // may have at once.
  int64_t MissingPages(int64_t slot, int64_t n_tokens) const {
    return MissingPages(slots_[static_cast<size_t>(slot)], n_tokens);
  }
  int64_t PagesToFull(int64_t slot) const {
    return pages_per_slot_ -
           std::ssize(slots_[static_cast<size_t>(slot)].pages);
  }
  // Positions after the slot's next one that need no page beside its.
  int64_t RoomAfterNext(int64_t slot) const {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    const int64_t left = s.next_page - s.length;
    return (left > 0 ? left : page_tokens_) - 1;
  }
  // Positions that the slot has had room for, those that left included.
  int64_t Length(int64_t slot) const;
  // Tokens that have left.
  int64_t Evicted(int64_t slot) const {
    return slots_[static_cast<size_t>(slot)].evicted;
  }
  // Tokens that are attended.
  int64_t Live(int64_t slot) const { return Length(slot) - Evicted(slot); }
  // True if the prefix must be looked at with the second rotation of q, at the
  // row's position less Evicted(slot).
  bool HasRolledPrefix(int64_t slot) const {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    return s.evicted > 0 && s.prefix_tokens > 0;
  }
  // Positions of `n_tokens` and beyond were not wanted: their pages are given
  // back. Rings must not have them.
  void Truncate(int64_t slot, int64_t n_tokens);
  // Gives the slot's pages back.
  void Clear(int64_t slot);

  // The slot's page table, in the order of attention's reduction.
  std::span<const kernels::PageEntry> Pages(int64_t slot) const;
  // First position that is still attended in rings.
  int64_t LiveBegin(int64_t slot) const;

  // Where `layer` keeps its keys and values. `layer` is the owner
  // (LayerShape::kv_source).
  kernels::PagedKv Paged(int64_t layer) const;
  kernels::RingKv Ring(int64_t layer, int64_t slot) const;
  // True if `layer` keeps a ring of its own.
  bool OwnsRing(int64_t layer) const {
    return IsRing(layer) && layers_[static_cast<size_t>(layer)].owns;
  }
  // Where the ring rows of draft tokens wait until it is known which are kept:
  // a ring of the plan's n_draft cells.
  kernels::RingKv Drafts(int64_t layer, int64_t slot) const;

  // Byte offsets, from the start of the pool, of the key and value rows of
  // `position` in a paged layer. Requires a live position.
  int64_t KeyOffset(int64_t layer, int64_t slot, int64_t position) const;
  int64_t ValueOffset(int64_t layer, int64_t slot, int64_t position) const;
  // Bytes of one token's key row and value row of `layer`.
  int64_t KeyRowBytes(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)].k_row_bytes;
  }
  int64_t ValueRowBytes(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)].v_row_bytes;
  }

  // Pages that no slot has.
  int64_t free_pages() const {
    return static_cast<int64_t>(free_.size()) + n_unused_;
  }

 private:
  struct Part {
    KvRegions regions;
    int64_t page_bytes;
    int64_t ring_bytes;   // of one slot
    int64_t draft_bytes;  // of one slot
  };
  struct Layer {
    size_t part = 0;
    bool owns = false;
    bool is_ring = false;
    int64_t k_row_bytes = 0;
    int64_t v_row_bytes = 0;
    int64_t k_offset = 0;  // in a page, or in a slot's rings
    int64_t v_offset = 0;
    int64_t k_draft_offset = 0;  // in a slot's drafts
    int64_t v_draft_offset = 0;
    int64_t window = 0;
  };

  // Lays out a part's layers in its pages and rings.
  void AddPart(const KvPart& part);
  const Part& PartOf(const Layer& layer) const { return parts_[layer.part]; }
  // Makes the pages' live cells those of the slot's length.
  void SetLiveEnds(Slot& slot);
  // Pages that `slot` lacks for `n_tokens` positions.
  int64_t MissingPages(const Slot& slot, int64_t n_tokens) const;
  void AddPage(Slot& slot);
  int32_t TakePage();
  // Frees the shared page without a slot that was used longest ago. False if
  // there is none.
  bool ForgetOldest();
  void GiveBack(int32_t page);
  bool IsUnused(int32_t page) const {
    return users_[static_cast<size_t>(page)] == 0;
  }
  // Of a page that prefixes_ had and no slot has.
  void FreeUnused(int32_t page) {
    free_.push_back(page);
    --n_unused_;
  }
  // Whole pages at the slot's beginning that others may share: those that lie
  // where they lie in any sequence.
  int64_t ShareablePages(const Slot& slot, int64_t n_tokens) const;
  int64_t PrefixPages(const Slot& slot) const;
  // The page that holds `position`.
  const kernels::PageEntry& PageOf(int64_t slot, int64_t position) const;

  int64_t page_tokens_;
  int64_t pages_per_slot_;
  int64_t n_draft_;
  bool has_rings_;
  std::vector<Part> parts_;
  std::vector<Layer> layers_;
  std::vector<Slot> slots_;
  std::vector<int32_t> free_;   // pages, the next one to use last
  std::vector<int32_t> users_;  // slots that have a page, by page
  int64_t n_kept_rings_;
  PrefixCache prefixes_;
  int64_t n_unused_ = 0;  // pages of prefixes_ that no slot has
  int64_t max_shared_pages_;
  std::vector<int32_t> forgotten_;  // scratch of Evict
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_KV_CACHE_H_
