// A rolling cache beside a plain list of the tokens that are alive: what every
// row may attend to, and that the bytes found there are those tokens'.
#ifndef PLIMSOLL_TESTS_WORKER_CACHE_ROLLING_CACHE_MODEL_H_
#define PLIMSOLL_TESTS_WORKER_CACHE_ROLLING_CACHE_MODEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/layout/kv_cache_bytes.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/roll_plan.h"

namespace plimsoll::testing {

struct RollSettings {
  int64_t n_ctx;
  int64_t window;
  int64_t pin_tokens;
  int64_t evict_to;
};

// Two slots, of which one rolls; a full and a window layer.
class RollingCacheModel {
 public:
  explicit RollingCacheModel(const RollSettings& settings)
      : settings_(settings) {
    shape_.n_layers = 2;
    for (int64_t il = 0; il < 2; ++il) {
      shape_.layers.push_back({.n_kv_heads = 1,
                               .head_dim = 16,
                               .ffn_dim = 32,
                               .window = il == kRingLayer ? settings.window : 0,
                               .kv_source = il});
    }
    plan_.n_ctx = settings.n_ctx;
    plan_.options.n_slots = 2;
    plan_.options.k_type = DType::kF16;
    plan_.options.v_type = DType::kF16;
    plan_.kv =
        *planner::KvCacheBytes(shape_, {.n_ctx = settings.n_ctx, .n_slots = 2});
    pages_.resize(static_cast<size_t>(plan_.kv.full_bytes));
    rings_.resize(static_cast<size_t>(plan_.kv.window_bytes));
    cache_ = std::make_unique<worker::KvCache>(
        shape_, plan_,
        worker::KvRegions{.pages = {pages_.data(), plan_.kv.full_bytes},
                          .rings = {rings_.data(), plan_.kv.window_bytes}});
    worker::RollOptions options;
    options.policy = worker::ContextPolicy::kRoll;
    options.pin_tokens = settings.pin_tokens;
    options.evict_to = settings.evict_to;
    roll_ = *worker::PlanRoll(shape_, plan_, options);
    cache_->Begin(kSlot, roll_.prefix_tokens);
    ring_.assign(static_cast<size_t>(settings.window), -1);
  }

  const worker::RollPlan& roll() const { return roll_; }
  worker::KvCache& cache() { return *cache_; }
  int64_t length() const { return cache_->Length(kSlot); }
  // The next token begins a turn, which leaves as a whole.
  void BeginTurn() {
    turns_.push_back(std::max(length(), roll_.prefix_tokens));
  }
  int64_t n_shifted() const { return n_shifted_; }

  // Evicts if the context is full, as the engine does, then computes up to
  // `n_rows` rows, checking each. Returns what is wrong; empty if nothing is.
  std::string Step(int64_t n_rows) {
    while (length() >= roll_.FullAt(cache_->Evicted(kSlot))) {
      if (!Evict()) return "a full context evicts nothing";
    }
    n_rows = std::min(n_rows, roll_.FullAt(cache_->Evicted(kSlot)) - length());
    const int64_t first = length();
    const absl::Status extended = cache_->Extend(kSlot, first + n_rows);
    if (!extended.ok()) return extended.ToString();
    for (int64_t p = first; p < first + n_rows; ++p) {
      written_[cache_->KeyOffset(kFullLayer, kSlot, p)] = p;
    }
    for (int64_t p = first; p < first + n_rows; ++p) {
      live_.push_back(p);
      std::string wrong = CheckPages(p);
      if (wrong.empty() && cache_->IsRing(kRingLayer)) {
        wrong = CheckRing(p, first);
      }
      if (!wrong.empty()) return absl::StrCat(wrong, ", at position ", p);
    }
    for (int64_t p = first; p < first + n_rows; ++p) {
      ring_[static_cast<size_t>(p % settings_.window)] = p;
    }
    if (cache_->Live(kSlot) != static_cast<int64_t>(live_.size())) {
      return absl::StrCat("the cache has ", cache_->Live(kSlot),
                          " live tokens, not ", live_.size());
    }
    return "";
  }

 private:
  static constexpr int64_t kFullLayer = 0;
  static constexpr int64_t kRingLayer = 1;
  static constexpr int64_t kSlot = 1;

  // Returns false if nothing can leave.
  bool Evict() {
    const int64_t first_recent = roll_.prefix_tokens + cache_->Evicted(kSlot);
    std::vector<int64_t> whole_turns;
    for (const int64_t turn : turns_) {
      if (turn > first_recent) whole_turns.push_back(turn - first_recent);
    }
    const worker::EvictionPlan leaving = worker::PlanEviction(
        roll_, static_cast<int64_t>(live_.size()), whole_turns);
    if (leaving.n_tokens <= 0) return false;
    if (leaving.method == worker::RollMethod::kRecompute) {
      // The sequence begins anew, because the rings would keep too little.
      cache_->Clear(kSlot);
      cache_->Begin(kSlot, roll_.prefix_tokens);
      live_.clear();
      turns_.clear();
      written_.clear();
      std::fill(ring_.begin(), ring_.end(), -1);
      return true;
    }
    cache_->Evict(kSlot, leaving.n_tokens);
    const auto oldest = live_.begin() + roll_.prefix_tokens;
    live_.erase(oldest, oldest + leaving.n_tokens);
    ++n_shifted_;
    return true;
  }

  // What attention over pages does: see Backend::Attention.
  std::string CheckPages(int64_t position) {
    const kernels::PagedKv paged = cache_->Paged(kFullLayer);
    std::vector<int64_t> attended;
    bool was_recent = false;
    for (const kernels::PageEntry& page : cache_->Pages(kSlot)) {
      if (page.is_prefix && was_recent) return "the prefix does not come first";
      was_recent = !page.is_prefix;
      for (int64_t c = page.live_begin; c < page.live_end; ++c) {
        const int64_t p = page.first_position + c;
        if (p > position) break;
        attended.push_back(p);
        if (page.is_prefix != (p < roll_.prefix_tokens)) {
          return "a page is wrongly of the prefix, or not";
        }
        const int64_t offset = page.page * paged.page_bytes + paged.k_offset +
                               c * cache_->KeyRowBytes(kFullLayer);
        const auto key = written_.find(offset);
        if (key == written_.end() || key->second != p) {
          return "there is another token's key";
        }
        // Seen from position - E, the prefix lies right before the rest.
        const int64_t from =
            page.is_prefix ? position - cache_->Evicted(kSlot) : position;
        if (from - p < 0 || from - p >= settings_.n_ctx) {
          return "a token is not within the context";
        }
      }
    }
    return std::equal(attended.begin(), attended.end(), live_.begin(),
                      live_.end())
               ? ""
               : "the pages do not have exactly the live tokens";
  }

  // What attention over rings does, for a chunk that starts at `first`.
  std::string CheckRing(int64_t position, int64_t first) {
    std::vector<int64_t> wanted;
    for (const int64_t p : live_) {
      if (p > position - settings_.window) wanted.push_back(p);
    }
    std::vector<int64_t> attended;
    const int64_t begin =
        std::max({cache_->LiveBegin(kSlot), position - settings_.window + 1,
                  int64_t{0}});
    for (int64_t p = begin; p <= position; ++p) {
      attended.push_back(p);
      if (p >= first) continue;
      if (ring_[static_cast<size_t>(p % settings_.window)] != p) {
        return "a cell of the ring has another token";
      }
    }
    if (attended != wanted) return "the ring does not have the window's tokens";
    // By the first eviction the prefix is beyond every window.
    if (cache_->Evicted(kSlot) > 0) {
      if (attended.front() < roll_.prefix_tokens) {
        return "the ring has a token of the prefix";
      }
      const int64_t recent =
          static_cast<int64_t>(live_.size()) - roll_.prefix_tokens;
      if (static_cast<int64_t>(attended.size()) !=
          std::min(settings_.window, recent)) {
        return "the window is not full";
      }
    }
    return "";
  }

  RollSettings settings_;
  planner::ModelShape shape_ = {};
  planner::MemoryPlan plan_ = {};
  std::vector<std::byte> pages_;
  std::vector<std::byte> rings_;
  std::unique_ptr<worker::KvCache> cache_;
  worker::RollPlan roll_;
  std::vector<int64_t> turns_;
  int64_t n_shifted_ = 0;
  std::deque<int64_t> live_;            // positions that are attended
  std::map<int64_t, int64_t> written_;  // byte offset -> position of the key
  std::vector<int64_t> ring_;           // cell -> position
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_CACHE_ROLLING_CACHE_MODEL_H_
