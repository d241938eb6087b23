// Where the keys, values and states of all slots lie: full-attention layers
// keep pages, sliding-window layers rings, recurrent layers a state. Index
// arithmetic over the plan's regions.
#ifndef PLIMSOLL_WORKER_CACHE_KV_CACHE_H_
#define PLIMSOLL_WORKER_CACHE_KV_CACHE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/tensor_view.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"
#include "worker/cache/cache_owners.h"
#include "worker/cache/page_book.h"
#include "worker/cache/prefix_cache.h"

namespace plimsoll::worker {

// The plan's regions kv_full, kv_window, kv_draft and state.
struct KvRegions {
  kernels::BufferView pages;
  kernels::BufferView rings;
  kernels::BufferView drafts = {};
  kernels::BufferView states = {};
};

// Consecutive layers whose keys, values and states lie on one device.
struct KvPart {
  const planner::ModelShape* shape;  // shape of these layers
  const planner::MemoryPlan* plan;
  KvRegions regions;
  // Clears the regions. Null for a cache that only one owner ever uses.
  kernels::Backend* backend;
};

// Layers are counted over all parts. A slot has the same page numbers, ring
// number and state number on every device, so that one book serves all devices.
//
// Before a page, or the ring and state of a slot, goes to another owner than
// its last one, it is cleared on all devices. It is not cleared if the last
// owner gets it again.
//
// Owned by the engine, used from the step thread only. Threads that compute
// parts of a step read it as well, and nothing changes meanwhile. Never
// allocates device memory; the tables are sized once.
class KvCache {
 public:
  // At most `max_shared_pages` pages are remembered by their tokens, so that
  // they can be shared. Pages of ended sequences are among them until others
  // need them. Requires parts with equal context, slots and pages.
  explicit KvCache(std::span<const KvPart> parts, int64_t max_shared_pages = 0);
  // The cache of a model on one device, for one owner.
  KvCache(const planner::ModelShape& shape, const planner::MemoryPlan& plan,
          const KvRegions& regions, int64_t max_shared_pages = 0);

  // True if `layer` keeps a ring instead of pages.
  bool IsRing(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)].is_ring;
  }

  // Where the tokens of a slot lie, without the bytes of its pages and rings.
  struct Slot {
    std::vector<kernels::PageEntry> pages;  // the prefix's pages come first
    int64_t length = 0;
    int64_t prefix_tokens = 0;
    int64_t evicted = 0;
    int64_t next_page = 0;  // position of cell 0 of the next page
    int64_t n_found = 0;    // first pages that can be found, or could
    // The first position that rings still attend to.
    int64_t live_begin = 0;
    // Which of the slot's states is the one after its newest certain token.
    int64_t state = 0;
  };
  static_assert(sizeof(kernels::PageEntry) == planner::kPageEntryBytes,
                "plans count the page tables");
  const Slot& Held(int64_t slot) const {
    return slots_[static_cast<size_t>(slot)];
  }
  // Makes an empty slot the owner's: its rings, drafts and states, and the
  // pages that it takes from now on. A slot that was never given to an owner
  // has pages that nobody has written.
  // Errors: those of the device that clears them; the slot is then as before.
  absl::Status GiveTo(int64_t slot, const std::string& owner);
  const std::string& OwnerOf(int64_t slot) const {
    return owners_.NameOf(SlotPlace(slot));
  }
  // Gives an empty slot the layout of `held`, in pages of its own. The caller
  // then copies the bytes into its pages, rings and state.
  // Errors: kResourceExhausted if too few pages are free; those of the device
  // that clears them. The slot is empty then.
  absl::Status Restore(int64_t slot, const Slot& held);

  // The beginning that a slot shares with others.
  struct Shared {
    int64_t n_tokens = 0;  // computed tokens that the slot begins with
    // Tokens that are known. A snapshot may be missing for the last ones, so
    // that n_tokens is smaller.
    int64_t n_matched = 0;
    std::optional<int64_t> snapshot;  // to be copied into the slot
  };
  // Begins an empty slot with the whole pages of `tokens` that `owner` has
  // computed before. The slot attends to them like its own and never writes
  // them.
  Shared Attach(int64_t slot, const std::string& owner,
                std::span<const int32_t> tokens);
  // The pages that Attach is sure to give to an empty slot without a prefix:
  // none where it must copy a snapshot, which may fail. Changes nothing.
  std::vector<int32_t> PagesToShare(const std::string& owner,
                                    std::span<const int32_t> tokens) const;
  // Lets later sequences of `owner` share the slot's whole pages, or its first
  // ones, where the rest would push out pages of owners that have fewer.
  // `tokens` are the first ones that the slot has computed. Requires that no
  // token has left.
  void Publish(int64_t slot, const std::string& owner,
               std::span<const int32_t> tokens);
  // The snapshot to copy the slot's rings and state into, as they are after the
  // published `tokens`. Nothing if there is one already or none can be kept.
  std::optional<int64_t> KeepSnapshot(const std::string& owner,
                                      std::span<const int32_t> tokens,
                                      PrefixCache::SnapshotOf of) {
    return prefixes_.KeepSnapshot(owner, tokens, of);
  }
  // Takes a snapshot back that could not be copied.
  void ForgetSnapshot(const std::string& owner,
                      std::span<const int32_t> tokens) {
    prefixes_.ForgetSnapshot(owner, tokens);
  }
  // Tokens of a page. Only whole pages are shared.
  int64_t page_tokens() const { return page_tokens_; }
  int64_t pages_per_slot() const { return pages_per_slot_; }
  // True if a beginning can be shared only where there is a snapshot of it.
  bool NeedsSnapshots() const { return needs_snapshots_; }
  // True if snapshots can be kept.
  bool KeepsSnapshots() const { return n_snapshots_ > 0; }
  // The ring and the state that a sequence keeps beside its pages, as numbers
  // for Rings and State.
  struct BesidePages {
    int64_t rings;
    int64_t state;
  };
  BesidePages OfSlot(int64_t slot) const { return {slot, StateOf(slot)}; }
  BesidePages OfSnapshot(int64_t snapshot) const;
  // A part's pages, one after the other, and the bytes of one page.
  kernels::BufferView Pool(size_t part) const {
    return parts_[part].regions.pages;
  }
  int64_t PageBytes(size_t part) const { return parts_[part].page_bytes; }
  // The rings, or the state, that a part's device holds; may be empty.
  kernels::BufferView Rings(size_t part, const BesidePages& of) const {
    const Part& p = parts_[part];
    return {p.regions.rings.data + of.rings * p.ring_bytes, p.ring_bytes};
  }
  kernels::BufferView State(size_t part, const BesidePages& of) const {
    const Part& p = parts_[part];
    return {p.regions.states.data + of.state * p.state_bytes, p.state_bytes};
  }
  // Bytes of everything that a full slot keeps, on all devices together.
  int64_t SlotBytes() const;
  // Bytes of host memory that the page tables take: the plan's region tables,
  // without what parked contexts take of it. They are there from the beginning.
  int64_t TableBytes() const { return table_bytes_; }

  // Lays out an empty slot for a sequence whose first `prefix_tokens` tokens
  // never leave. They have pages of their own, and the last page's tail stays
  // empty. A slot that was not begun has no prefix.
  void Begin(int64_t slot, int64_t prefix_tokens);
  // Makes room for positions [Length(slot), n_tokens) in the slot's pages.
  // Errors: kResourceExhausted if no page is left, and then nothing changed;
  // those of the device that clears pages, and then the slot has the same
  // length.
  absl::Status Extend(int64_t slot, int64_t n_tokens);
  // Evicts the oldest `n_tokens` after the prefix, which the slot must have.
  // Pages without a live token are given back, and cells of rings are masked.
  // Nothing moves.
  void Evict(int64_t slot, int64_t n_tokens);
  // How many pages the slot lacks for `n_tokens` positions, and for a full
  // context.
  int64_t MissingPages(int64_t slot, int64_t n_tokens) const {
    return MissingPages(slots_[static_cast<size_t>(slot)], n_tokens);
  }
  int64_t PagesToFull(int64_t slot) const {
    return pages_per_slot_ -
           std::ssize(slots_[static_cast<size_t>(slot)].pages);
  }
  // How many positions behind the slot's next one lie in the same page.
  int64_t RoomAfterNext(int64_t slot) const {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    const int64_t left = s.next_page - s.length;
    return (left > 0 ? left : page_tokens_) - 1;
  }
  // Positions that the slot has been given room for, evicted ones included.
  int64_t Length(int64_t slot) const;
  // Tokens that have left.
  int64_t Evicted(int64_t slot) const {
    return slots_[static_cast<size_t>(slot)].evicted;
  }
  // Tokens that are attended.
  int64_t Live(int64_t slot) const { return Length(slot) - Evicted(slot); }
  // True if queries must be rotated a second time for the prefix, at the row's
  // position less Evicted(slot).
  bool HasRolledPrefix(int64_t slot) const {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    return s.evicted > 0 && s.prefix_tokens > 0;
  }
  // Takes back the positions from `n_tokens` on, with their pages. Requires
  // that no ring holds them, and that the slot's state is one from before them.
  void Truncate(int64_t slot, int64_t n_tokens);
  // Empties the slot and gives its pages back.
  void Clear(int64_t slot);

  // The slot's page table, in the order of attention's reduction.
  std::span<const kernels::PageEntry> Pages(int64_t slot) const;
  // The first position that rings still attend to.
  int64_t LiveBegin(int64_t slot) const;

  // Where `layer` keeps its keys and values. `layer` is the owner
  // (LayerShape::kv_source).
  kernels::PagedKv Paged(int64_t layer) const;
  kernels::RingKv Ring(int64_t layer, int64_t slot) const;
  // True if `layer` keeps a ring of its own.
  bool OwnsRing(int64_t layer) const {
    return IsRing(layer) && layers_[static_cast<size_t>(layer)].owns;
  }
  // Where the rows of draft tokens wait until it is known which of them the
  // ring keeps: a ring of the plan's n_draft cells.
  kernels::RingKv Drafts(int64_t layer, int64_t slot) const;

  // The states of all slots and snapshots in a recurrent layer: number i begins
  // i * stride floats behind `first`.
  struct LayerStates {
    float* first;
    int64_t stride;
    int64_t n_states;
  };
  LayerStates States(int64_t layer) const;
  // The number of a slot's state after its newest certain token, or after
  // `n_drafts` tokens more, up to the plan's n_draft.
  int64_t StateOf(int64_t slot, int64_t n_drafts = 0) const {
    const int64_t newest = slots_[static_cast<size_t>(slot)].state;
    return slot * (1 + n_draft_) + (newest + n_drafts) % (1 + n_draft_);
  }
  // Makes the next `n_drafts` tokens of the slot certain.
  void AcceptDrafts(int64_t slot, int64_t n_drafts) {
    int64_t& newest = slots_[static_cast<size_t>(slot)].state;
    newest = (newest + n_drafts) % (1 + n_draft_);
  }

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

  int64_t n_pages() const { return pages_.n_pages(); }
  // Pages that no slot uses.
  int64_t free_pages() const { return pages_.n_free() + prefixes_.n_unused(); }

 private:
  struct Part {
    KvRegions regions;
    kernels::Backend* backend;
    int64_t page_bytes;
    int64_t ring_bytes;   // one slot's bytes
    int64_t draft_bytes;  // one slot's bytes
    int64_t state_bytes;  // bytes of one state
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
    int64_t state_offset = 0;  // in a state
  };

  // Lays out a part's layers in its pages and rings.
  void AddPart(const KvPart& part);
  // Where a layer's keys and values begin, and the end of those before it.
  struct Offsets {
    int64_t page = 0;
    int64_t ring = 0;
    int64_t draft = 0;
  };
  void PlaceKv(const planner::LayerShape& from, const planner::MemoryPlan& plan,
               Layer& layer, Offsets& offsets) const;
  // Takes the rest of the host memory for the books.
  void MakeTables();
  const Part& PartOf(const Layer& layer) const { return parts_[layer.part]; }
  // Makes the live cells of all pages match the slot's length.
  void SetLiveEnds(Slot& slot);
  // Pages that `slot` lacks for `n_tokens` positions.
  int64_t MissingPages(const Slot& slot, int64_t n_tokens) const;
  absl::Status AddPage(int64_t slot);
  // Takes a free page for a slot, cleared if another owner wrote it. Requires
  // one.
  absl::StatusOr<int32_t> TakePage(int64_t slot);
  absl::Status ClearPage(int32_t page);
  absl::Status ClearBesidePages(int64_t slot);
  void GiveBack(int32_t page);
  // Pages of all slots of this slot's owner that are not found by their tokens.
  int64_t UnfoundPages(int64_t slot) const;
  // Where owners_ has a slot; pages come first.
  int64_t SlotPlace(int64_t slot) const { return pages_.n_pages() + slot; }
  // How many whole pages at the slot's beginning others may share. Such a page
  // lies at the same positions in any sequence.
  int64_t ShareablePages(const Slot& slot, int64_t n_tokens) const;
  int64_t PrefixPages(const Slot& slot) const;
  // The page that holds `position`.
  const kernels::PageEntry& PageOf(int64_t slot, int64_t position) const;

  int64_t page_tokens_;
  int64_t pages_per_slot_;
  int64_t n_draft_;
  bool needs_snapshots_;
  std::vector<Part> parts_;
  std::vector<Layer> layers_;
  std::vector<Slot> slots_;
  PageBook pages_;
  CacheOwners owners_;
  int64_t n_snapshots_;
  PrefixCache prefixes_;
  int64_t max_shared_pages_;
  std::vector<int32_t> forgotten_;  // scratch of Evict
  static_assert(sizeof(PageBook::PageState) + sizeof(CacheOwners::Number) +
                        sizeof(decltype(forgotten_)::value_type) ==
                    planner::kPageStateBytes,
                "plans count what the host keeps of a page");
  int64_t table_bytes_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_KV_CACHE_H_
