#include "worker/cache/kv_cache.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// Pages that are kept to be shared, whatever the options say: each takes some
// 800 bytes of the host's memory, most of them for its tokens.
constexpr int64_t kMaxSharedPages = 4'096;

// How many of a slot's first `n_pages` pages may be found by their tokens: not
// those from the first one on that a context holds which has evicted the page
// before it. Whoever uses a page that can be found must use the pages before it
// too, because a page is forgotten only after those that follow it.
int64_t PagesToFind(std::span<const KvCache::Slot> slots,
                    const KvCache::Slot& slot, int64_t n_pages,
                    int64_t page_tokens) {
  for (const KvCache::Slot& other : slots) {
    if (other.evicted == 0) continue;
    for (const kernels::PageEntry& entry : other.pages) {
      // A shared page lies at the same positions in each slot.
      const int64_t i = entry.first_position / page_tokens;
      if (entry.is_prefix || i >= n_pages) continue;
      if (slot.pages[static_cast<size_t>(i)].page == entry.page) n_pages = i;
    }
  }
  return n_pages;
}

}  // namespace

KvCache::KvCache(std::span<const KvPart> parts, int64_t max_shared_pages)
    : page_tokens_(parts.front().plan->kv.page_tokens),
      pages_per_slot_(parts.front().plan->kv.pages_per_slot),
      n_draft_(parts.front().plan->options.n_draft),
      needs_snapshots_(std::ranges::any_of(
          parts,
          [](const KvPart& part) {
            return part.plan->kv.ring_bytes + part.plan->kv.state_bytes > 0;
          })),
      slots_(static_cast<size_t>(parts.front().plan->options.n_slots)),
      pages_(parts.front().plan->kv.n_pages),
      owners_(pages_.n_pages() + std::ssize(slots_)),
      n_snapshots_(
          needs_snapshots_ ? parts.front().plan->options.n_idle_sessions : 0),
      prefixes_(page_tokens_, n_snapshots_),
      max_shared_pages_(std::min(max_shared_pages, kMaxSharedPages)) {
  for (const KvPart& part : parts) AddPart(part);
  MakeTables();
}

void KvCache::MakeTables() {
  forgotten_.resize(
      static_cast<size_t>(std::min(pages_.n_pages(), max_shared_pages_)));
  forgotten_.clear();
  size_t n_entries = 0;
  for (Slot& slot : slots_) {
    // Written once, so that the memory is there.
    slot.pages.resize(static_cast<size_t>(pages_per_slot_));
    slot.pages.clear();
    n_entries += slot.pages.capacity();
  }
  // The owner of each page is a number.
  const auto n_numbers =
      forgotten_.capacity() + static_cast<size_t>(pages_.n_pages());
  table_bytes_ = pages_.Bytes() +
                 static_cast<int64_t>(n_numbers * sizeof(int32_t) +
                                      n_entries * sizeof(kernels::PageEntry));
}

KvCache::KvCache(const planner::ModelShape& shape,
                 const planner::MemoryPlan& plan, const KvRegions& regions,
                 int64_t max_shared_pages)
    : KvCache(std::array{KvPart{&shape, &plan, regions, nullptr}},
              max_shared_pages) {}

void KvCache::AddPart(const KvPart& part) {
  const planner::MemoryPlan& plan = *part.plan;
  const Part& to =
      parts_.emplace_back(Part{.regions = part.regions,
                               .backend = part.backend,
                               .page_bytes = plan.kv.page_bytes,
                               .ring_bytes = plan.kv.ring_bytes,
                               .draft_bytes = n_draft_ * plan.kv.ring_row_bytes,
                               .state_bytes = plan.kv.state_bytes});
  Offsets offsets;
  int64_t state_offset = 0;
  for (size_t il = 0; il < part.shape->layers.size(); ++il) {
    const planner::LayerShape& from = part.shape->layers[il];
    Layer& layer = layers_.emplace_back();
    layer.part = parts_.size() - 1;
    layer.owns = from.kv_source == static_cast<int64_t>(il);
    if (from.Attends()) {
      PlaceKv(from, plan, layer, offsets);
    } else if (from.IsRecurrent()) {
      layer.state_offset = state_offset;
      state_offset +=
          part.shape->recurrent.StateFloats() * planner::kFloatBytes;
    }
  }
  PLIMSOLL_CHECK(
      offsets.page == to.page_bytes && offsets.ring == to.ring_bytes &&
          offsets.draft == to.draft_bytes && state_offset == to.state_bytes,
      "the cache's arithmetic equals the plan's");
  PLIMSOLL_CHECK(plan.kv.n_pages * to.page_bytes <= to.regions.pages.bytes,
                 "the plan's region holds every page");
}

void KvCache::PlaceKv(const planner::LayerShape& from,
                      const planner::MemoryPlan& plan, Layer& layer,
                      Offsets& offsets) const {
  layer.is_ring = from.window > 0 && planner::HasRing(from.window, plan.n_ctx);
  layer.window = from.window;
  const auto k_row = RowBytes(plan.options.k_type, from.head_dim);
  const auto v_row = RowBytes(plan.options.v_type, from.StoredValueDim());
  PLIMSOLL_CHECK(k_row.ok() && v_row.ok(), "the plan checked the KV types");
  layer.k_row_bytes = from.n_kv_heads * *k_row;
  layer.v_row_bytes = from.n_kv_heads * *v_row;
  if (!layer.owns) return;
  const int64_t cells = layer.is_ring ? layer.window : page_tokens_;
  int64_t& offset = layer.is_ring ? offsets.ring : offsets.page;
  const int64_t k_end = offset + cells * layer.k_row_bytes;
  layer.k_offset = offset;
  // Values that have no rows of their own lie in the keys' rows.
  layer.v_offset = *v_row > 0 ? k_end : layer.k_offset;
  offset = k_end + cells * layer.v_row_bytes;
  if (!layer.is_ring) return;
  layer.k_draft_offset = offsets.draft;
  layer.v_draft_offset = offsets.draft + n_draft_ * layer.k_row_bytes;
  offsets.draft = layer.v_draft_offset + n_draft_ * layer.v_row_bytes;
}

KvCache::BesidePages KvCache::OfSnapshot(int64_t snapshot) const {
  const auto n_slots = std::ssize(slots_);
  return {n_slots + snapshot, n_slots * (1 + n_draft_) + snapshot};
}

KvCache::LayerStates KvCache::States(int64_t layer) const {
  const Layer& l = layers_[static_cast<size_t>(layer)];
  const Part& part = PartOf(l);
  std::byte* const first = part.regions.states.data + l.state_offset;
  return {.first = reinterpret_cast<float*>(first),
          .stride = part.state_bytes / planner::kFloatBytes,
          .n_states = part.regions.states.bytes / part.state_bytes};
}

int64_t KvCache::SlotBytes() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) {
    bytes +=
        pages_per_slot_ * part.page_bytes + part.ring_bytes + part.state_bytes;
  }
  return bytes;
}

absl::Status KvCache::Restore(int64_t slot, const Slot& held) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  PLIMSOLL_CHECK(s.pages.empty(), "a context is restored into an empty slot");
  if (std::ssize(held.pages) > free_pages()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a context of ", held.pages.size(), " pages needs them, ",
                     free_pages(), " are free"));
  }
  s = held;
  s.pages.clear();
  s.n_found = 0;
  for (kernels::PageEntry page : held.pages) {
    const absl::StatusOr<int32_t> taken = TakePage(slot);
    if (!taken.ok()) {
      Clear(slot);
      return taken.status();
    }
    page.page = *taken;
    s.pages.push_back(page);
  }
  return absl::OkStatus();
}

int64_t KvCache::PrefixPages(const Slot& slot) const {
  return CeilDiv(slot.prefix_tokens, page_tokens_);
}

void KvCache::Begin(int64_t slot, int64_t prefix_tokens) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  PLIMSOLL_CHECK(s.pages.empty(), "a sequence begins in an empty slot");
  s.prefix_tokens = prefix_tokens;
}

int64_t KvCache::MissingPages(const Slot& slot, int64_t n_tokens) const {
  const int64_t prefix_end = std::min(n_tokens, slot.prefix_tokens);
  const int64_t recent_begin = std::max(slot.next_page, slot.prefix_tokens);
  const auto pages = [this](int64_t n) {
    return n > 0 ? CeilDiv(n, page_tokens_) : 0;
  };
  return pages(prefix_end - slot.next_page) + pages(n_tokens - recent_begin);
}

absl::Status KvCache::AddPage(int64_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  ASSIGN_OR_RETURN(const int32_t page, TakePage(slot));
  const bool is_prefix = s.next_page < s.prefix_tokens;
  s.pages.push_back({.first_position = s.next_page,
                     .page = page,
                     .live_begin = 0,
                     .live_end = 0,
                     .is_prefix = is_prefix});
  s.next_page += page_tokens_;
  if (is_prefix) s.next_page = std::min(s.next_page, s.prefix_tokens);
  return absl::OkStatus();
}

absl::StatusOr<int32_t> KvCache::TakePage(int64_t slot) {
  if (pages_.n_free() == 0) {
    const auto forgotten =
        prefixes_.ForgetOldest(OwnerOf(slot), UnfoundPages(slot) + 1);
    PLIMSOLL_CHECK(forgotten.has_value(), "free pages were counted");
    pages_.Free(*forgotten);
  }
  const int32_t page = pages_.NextFree();
  if (owners_.IsOthersThan(page, SlotPlace(slot))) {
    RETURN_IF_ERROR(ClearPage(page));
  }
  owners_.GiveLike(page, SlotPlace(slot));
  return pages_.Take();
}

int64_t KvCache::UnfoundPages(int64_t slot) const {
  int64_t n = 0;
  for (int64_t i = 0; i < std::ssize(slots_); ++i) {
    if (!owners_.IsSame(SlotPlace(i), SlotPlace(slot))) continue;
    const Slot& s = slots_[static_cast<size_t>(i)];
    n += std::ssize(s.pages) - s.n_found;
  }
  return n;
}

absl::Status KvCache::ClearPage(int32_t page) {
  for (const Part& part : parts_) {
    PLIMSOLL_CHECK(part.backend != nullptr, "a cache of many owners has one");
    RETURN_IF_ERROR(part.backend->Clear(
        part.regions.pages.Slice(page * part.page_bytes, part.page_bytes)));
  }
  return absl::OkStatus();
}

absl::Status KvCache::GiveTo(int64_t slot, const std::string& owner) {
  PLIMSOLL_CHECK(slots_[static_cast<size_t>(slot)].pages.empty(),
                 "an empty slot is given");
  if (owners_.IsOthers(SlotPlace(slot), owner)) {
    RETURN_IF_ERROR(ClearBesidePages(slot));
  }
  owners_.Give(SlotPlace(slot), owner);
  return absl::OkStatus();
}

absl::Status KvCache::ClearBesidePages(int64_t slot) {
  const auto clear = [slot](const Part& part, const kernels::BufferView& of,
                            int64_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    PLIMSOLL_CHECK(part.backend != nullptr, "a cache of many owners has one");
    return part.backend->Clear(of.Slice(slot * bytes, bytes));
  };
  for (const Part& part : parts_) {
    const KvRegions& regions = part.regions;
    RETURN_IF_ERROR(clear(part, regions.rings, part.ring_bytes));
    RETURN_IF_ERROR(clear(part, regions.drafts, part.draft_bytes));
    RETURN_IF_ERROR(
        clear(part, regions.states, (1 + n_draft_) * part.state_bytes));
  }
  return absl::OkStatus();
}

void KvCache::GiveBack(int32_t page) {
  if (!pages_.RemoveUser(page)) return;
  if (prefixes_.Has(page)) return prefixes_.MarkUnused(page);
  pages_.Free(page);
}

int64_t KvCache::ShareablePages(const Slot& slot, int64_t n_tokens) const {
  // If a prefix ends within a page, everything behind it has another place than
  // without the prefix.
  const int64_t end = slot.prefix_tokens % page_tokens_ == 0
                          ? n_tokens
                          : std::min(n_tokens, slot.prefix_tokens);
  return end / page_tokens_;
}

KvCache::Shared KvCache::Attach(int64_t slot, const std::string& owner,
                                std::span<const int32_t> tokens) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  PLIMSOLL_CHECK(s.pages.empty(), "a sequence begins in an empty slot");
  const int64_t most =
      ShareablePages(s, static_cast<int64_t>(tokens.size())) * page_tokens_;
  const PrefixCache::Hit hit =
      prefixes_.Find(owner, tokens.first(static_cast<size_t>(most)));
  const auto n_matched = static_cast<int64_t>(hit.pages.size());
  const int64_t n_pages = NeedsSnapshots() ? hit.n_with_snapshot : n_matched;
  for (int64_t i = 0; i < n_pages; ++i) {
    const int32_t page = hit.pages[static_cast<size_t>(i)];
    if (pages_.AddUser(page)) prefixes_.MarkUsed(page);
    s.pages.push_back({.first_position = s.next_page,
                       .page = page,
                       .live_begin = 0,
                       .live_end = static_cast<int32_t>(page_tokens_),
                       .is_prefix = s.next_page < s.prefix_tokens});
    s.next_page += page_tokens_;
  }
  s.length = n_pages * page_tokens_;
  s.n_found = n_pages;
  return {.n_tokens = s.length,
          .n_matched = n_matched * page_tokens_,
          .snapshot = n_pages > 0 ? hit.snapshot : std::nullopt};
}

std::vector<int32_t> KvCache::PagesToShare(
    const std::string& owner, std::span<const int32_t> tokens) const {
  if (NeedsSnapshots()) return {};
  return prefixes_.Look(owner, tokens).pages;
}

void KvCache::Publish(int64_t slot, const std::string& owner,
                      std::span<const int32_t> tokens) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  const int64_t n_computed = PagesToFind(
      slots_, s,
      std::min(ShareablePages(s, static_cast<int64_t>(tokens.size())),
               max_shared_pages_),
      page_tokens_);
  tokens = tokens.first(static_cast<size_t>(n_computed * page_tokens_));
  const auto known = [&] {
    return static_cast<int64_t>(prefixes_.Find(owner, tokens).pages.size());
  };
  int64_t n_new = n_computed - known();
  while (prefixes_.size() + n_new > max_shared_pages_) {
    if (const auto page = prefixes_.ForgetFor(owner, n_new)) {
      pages_.Free(*page);
    } else if (--n_new == 0) {
      break;  // the others are in use, or of owners that have fewer
    }
  }
  // Not those that were forgotten just now.
  const int64_t n_pages = std::min(known() + n_new, n_computed);
  std::vector<int32_t> pages;
  for (int64_t i = 0; i < n_pages; ++i) {
    pages.push_back(s.pages[static_cast<size_t>(i)].page);
  }
  for (const int32_t page : prefixes_.Insert(
           owner, tokens.first(static_cast<size_t>(n_pages * page_tokens_)),
           pages)) {
    pages_.Free(page);
  }
  s.n_found = std::max(s.n_found, n_pages);
}

absl::Status KvCache::Extend(int64_t slot, int64_t n_tokens) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  const int64_t missing = MissingPages(s, n_tokens);
  if (missing > free_pages()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a sequence of ", n_tokens, " tokens needs ", missing,
                     " more pages of ", page_tokens_, " tokens, ", free_pages(),
                     " are free"));
  }
  for (int64_t i = 0; i < missing; ++i) RETURN_IF_ERROR(AddPage(slot));
  s.length = std::max(s.length, n_tokens);
  SetLiveEnds(s);
  return absl::OkStatus();
}

void KvCache::SetLiveEnds(Slot& slot) {
  for (kernels::PageEntry& page : slot.pages) {
    const int64_t end = page.is_prefix
                            ? std::min(slot.length, slot.prefix_tokens)
                            : slot.length;
    page.live_end = static_cast<int32_t>(
        std::clamp<int64_t>(end - page.first_position, 0, page_tokens_));
  }
}

void KvCache::Truncate(int64_t slot, int64_t n_tokens) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  PLIMSOLL_CHECK(n_tokens <= s.length, "only what is there is taken back");
  while (!s.pages.empty() && s.pages.back().first_position >= n_tokens) {
    GiveBack(s.pages.back().page);
    s.next_page = s.pages.back().first_position;
    s.pages.pop_back();
  }
  s.n_found = std::min<int64_t>(s.n_found, std::ssize(s.pages));
  s.length = n_tokens;
  SetLiveEnds(s);
}

void KvCache::Evict(int64_t slot, int64_t n_tokens) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  PLIMSOLL_CHECK(n_tokens > 0 && s.prefix_tokens + n_tokens <= Live(slot),
                 "only tokens after the prefix leave");
  s.evicted += n_tokens;
  s.live_begin = s.prefix_tokens + s.evicted;
  const auto oldest = s.pages.begin() + PrefixPages(s);
  auto kept = oldest;
  while (kept != s.pages.end() &&
         kept->first_position + page_tokens_ <= s.live_begin) {
    // Without this page, the pages after it are not the beginning of any text,
    // so nobody can share them.
    prefixes_.Forget(kept->page, forgotten_);
    for (const int32_t page : forgotten_) {
      if (pages_.IsUnused(page)) pages_.Free(page);
    }
    GiveBack(kept->page);
    ++kept;
  }
  if (kept != s.pages.end()) {
    kept->live_begin = static_cast<int32_t>(
        std::max<int64_t>(s.live_begin - kept->first_position, 0));
  }
  s.pages.erase(oldest, kept);
  s.n_found = std::min(s.n_found, PrefixPages(s));
}

int64_t KvCache::Length(int64_t slot) const {
  return slots_[static_cast<size_t>(slot)].length;
}

void KvCache::Clear(int64_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  // The last one first: it is what others will miss least.
  for (auto page = s.pages.rbegin(); page != s.pages.rend(); ++page) {
    GiveBack(page->page);
  }
  s.pages.clear();
  s.length = 0;
  s.prefix_tokens = 0;
  s.evicted = 0;
  s.next_page = 0;
  s.n_found = 0;
  s.live_begin = 0;
  s.state = 0;
}

std::span<const kernels::PageEntry> KvCache::Pages(int64_t slot) const {
  return slots_[static_cast<size_t>(slot)].pages;
}

int64_t KvCache::LiveBegin(int64_t slot) const {
  return slots_[static_cast<size_t>(slot)].live_begin;
}

kernels::PagedKv KvCache::Paged(int64_t layer) const {
  const Layer& l = layers_[static_cast<size_t>(layer)];
  return {.pool = PartOf(l).regions.pages.data,
          .page_bytes = PartOf(l).page_bytes,
          .k_offset = l.k_offset,
          .v_offset = l.v_offset,
          .page_tokens = page_tokens_};
}

kernels::RingKv KvCache::Ring(int64_t layer, int64_t slot) const {
  const Layer& l = layers_[static_cast<size_t>(layer)];
  const Part& part = PartOf(l);
  std::byte* base = part.regions.rings.data + slot * part.ring_bytes;
  return {.k = base + l.k_offset, .v = base + l.v_offset, .window = l.window};
}

kernels::RingKv KvCache::Drafts(int64_t layer, int64_t slot) const {
  const Layer& l = layers_[static_cast<size_t>(layer)];
  const Part& part = PartOf(l);
  std::byte* base = part.regions.drafts.data + slot * part.draft_bytes;
  return {.k = base + l.k_draft_offset,
          .v = base + l.v_draft_offset,
          .window = n_draft_};
}

const kernels::PageEntry& KvCache::PageOf(int64_t slot,
                                          int64_t position) const {
  const Slot& s = slots_[static_cast<size_t>(slot)];
  if (position < s.prefix_tokens) {
    return s.pages[static_cast<size_t>(position / page_tokens_)];
  }
  const auto oldest = static_cast<size_t>(PrefixPages(s));
  const int64_t after = position - s.pages[oldest].first_position;
  return s.pages[oldest + static_cast<size_t>(after / page_tokens_)];
}

int64_t KvCache::KeyOffset(int64_t layer, int64_t slot,
                           int64_t position) const {
  const Layer& l = layers_[static_cast<size_t>(layer)];
  const kernels::PageEntry& page = PageOf(slot, position);
  return page.page * PartOf(l).page_bytes + l.k_offset +
         (position - page.first_position) * l.k_row_bytes;
}

int64_t KvCache::ValueOffset(int64_t layer, int64_t slot,
                             int64_t position) const {
  const Layer& l = layers_[static_cast<size_t>(layer)];
  const kernels::PageEntry& page = PageOf(slot, position);
  return page.page * PartOf(l).page_bytes + l.v_offset +
         (position - page.first_position) * l.v_row_bytes;
}

}  // namespace plimsoll::worker
