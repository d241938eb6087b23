// A scheduler and a cache under random traffic, as the engine drives them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/sanitized.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/page_claims.h"
#include "worker/cache/page_reservations.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t NumWorkloads() {
  if (plimsoll::testing::kIsSanitized) return 3'000;
  return plimsoll::testing::kIsLong ? 100'000 : 30'000;
}
constexpr int64_t kWorkloads = NumWorkloads();
constexpr int64_t kQueue = 6;
constexpr int64_t kTicks = 40;          // streams come in these ticks
constexpr int64_t kMostSteps = 20'000;  // all have ended after so many steps
// Steps without a row of one that could run: of the prompts before it, at worst
// a row each.
constexpr int64_t kMostWaited = 1'000;

// The numbers of a workload, of its seed alone.
struct Settings {
  int64_t n_slots, n_rows, n_ctx, n_draft;
  int64_t pool_tokens;  // 0 = every slot has its own pages
  bool preempts;        // otherwise pages are reserved
};

// One random workload: streams of three tenants come, pause, roll, guess, stop,
// stay as sessions and come back; nothing of a model is computed.
class Workload {
 public:
  Workload(uint32_t seed, bool preempts)
      : random_(seed),
        settings_{.n_slots = 1 + Draw(4),
                  .n_rows = 1 + Draw(Draw(2) == 0 ? 4 : 32),
                  .n_ctx = 64 * (3 + Draw(3)),
                  .n_draft = Draw(4),
                  .pool_tokens = Draw(2) * (1 + Draw(1'000)),
                  .preempts = preempts},
        scheduler_(settings_.n_slots, settings_.n_rows, kQueue),
        shape_(Shape()),
        plan_(Plan(shape_, settings_)),
        cache_(shape_, plan_,
               {.pages = {nullptr, plan_.kv.full_bytes},
                .rings = {nullptr, plan_.kv.window_bytes}}),
        reservations_(cache_) {
    n_pages_ = cache_.free_pages();
  }

  void Run() {
    for (int64_t tick = 0; tick < kTicks && !Failed(); ++tick) {
      MaybeAdd();
      MaybeResume();
      MaybePauseOrCancel();
      Step();
    }
    for (auto& [id, s] : live_) Pause(id, s, false);
    int64_t left = kMostSteps;
    for (; !live_.empty() && left > 0 && !Failed(); --left) {
      FreeSessions();
      Step();
    }
    EXPECT_TRUE(live_.empty()) << "a stream starved";
    FreeSessions();
    EXPECT_EQ(scheduler_.running(), 0);
    EXPECT_EQ(scheduler_.waiting(), 0);
    EXPECT_EQ(cache_.free_pages(), n_pages_);
  }

  int64_t n_preempted() const { return n_preempted_; }
  int64_t n_sliced() const { return n_sliced_; }

 private:
  struct Live {
    int64_t n_prompt;  // rows before the first token
    int64_t n_total;   // rows until it ends
    bool rolls;
    bool stays;  // true for a session
    int64_t next = 0;
    bool is_paused = false;
    int64_t n_waited = 0;  // steps in which it could have run
  };

  static bool Failed() { return ::testing::Test::HasFailure(); }

  static planner::ModelShape Shape() {
    planner::ModelShape shape;
    shape.n_layers = 1;
    planner::LayerShape layer = {};
    layer.n_kv_heads = 1;
    layer.head_dim = 32;
    shape.layers = {layer};
    return shape;
  }

  static planner::MemoryPlan Plan(const planner::ModelShape& shape,
                                  const Settings& settings) {
    planner::MemoryPlan plan;
    plan.n_ctx = settings.n_ctx;
    plan.options.n_slots = settings.n_slots;
    plan.options.n_draft = settings.n_draft;
    planner::KvRules rules;
    rules.pool_tokens = settings.pool_tokens;
    plan.kv = *planner::KvCacheBytes(
        shape,
        {.n_ctx = settings.n_ctx, .n_slots = settings.n_slots, .rules = rules});
    return plan;
  }

  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  // Positions that fit in the slot of a stream as it is now.
  int64_t Limit(const Live& s, int64_t slot) const {
    return settings_.n_ctx + (s.rolls ? cache_.Evicted(slot) : 0);
  }

  void MaybeAdd() {
    if (Draw(2) != 0) return;
    Live s = {.n_prompt = 1 + Draw(Draw(4) == 0 ? 150 : 10),
              .n_total = 0,
              .rolls = Draw(4) == 0,
              .stays = false};
    s.stays = s.rolls && Draw(2) == 0;
    s.n_total = s.n_prompt + Draw(s.rolls ? 400 : 30);
    if (!s.rolls) s.n_total = std::min(s.n_total, settings_.n_ctx);
    const Claim claim = {std::string(static_cast<size_t>(Draw(3)), 'x'),
                         static_cast<Priority>(Draw(3))};
    // Sequences that were preempted or have yielded wait beside the queue.
    const int64_t n_waiting = scheduler_.waiting();
    if (const auto gone = scheduler_.GivesWayTo(claim)) {
      scheduler_.Remove(*gone);
      EXPECT_GE(n_waiting, kQueue);
      EXPECT_EQ(live_.at(*gone).next, 0) << "who has run gives way to nobody";
      live_.erase(*gone);
    }
    const bool is_queued = scheduler_.Add(next_id_, s.n_prompt, claim).ok();
    EXPECT_TRUE(is_queued || n_waiting >= kQueue);
    EXPECT_LE(scheduler_.waiting(), kQueue + std::ssize(live_) + 1);
    if (is_queued) live_[next_id_] = s;
    ++next_id_;
  }

  // Somebody says more in a session, or closes it.
  void MaybeResume() {
    if (sessions_.empty() || Draw(3) != 0) return;
    const int64_t slot = *sessions_.begin();
    sessions_.erase(slot);
    const int64_t n_computed = cache_.Length(slot);
    Live s = {.n_prompt = n_computed + 1 + Draw(20),
              .n_total = 0,
              .rolls = true,
              .stays = Draw(2) == 0,
              .next = n_computed};
    s.n_total = s.n_prompt + Draw(30);
    scheduler_.Resume({.id = next_id_,
                       .slot = slot,
                       .n_computed = n_computed,
                       .n_prompt = s.n_prompt,
                       .limit = Limit(s, slot)});
    live_[next_id_++] = s;
  }

  void FreeSessions() {
    for (const int64_t slot : sessions_) {
      cache_.Clear(slot);
      scheduler_.FreeSlot(slot);
    }
    sessions_.clear();
  }

  void Pause(int64_t id, Live& s, bool is_paused) {
    s.is_paused = is_paused;
    is_paused ? scheduler_.Park(id) : scheduler_.Unpark(id);
  }

  void MaybePauseOrCancel() {
    std::vector<int64_t> cancelled;
    for (auto& [id, s] : live_) {
      const int64_t what = Draw(40);
      if (what == 0) cancelled.push_back(id);
      if (what < 3 && scheduler_.SlotOf(id)) Pause(id, s, !s.is_paused);
    }
    for (const int64_t id : cancelled) End(id, /*stays=*/false);
  }

  void End(int64_t id, bool stays) {
    const std::optional<int64_t> slot = scheduler_.SlotOf(id);
    // One whole context is left to the others.
    stays &=
        std::ssize(sessions_) + 1 <
        std::min(settings_.n_slots, plan_.kv.n_pages / plan_.kv.pages_per_slot);
    if (slot && stays) {
      scheduler_.RemoveKeepingSlot(id);
      sessions_.insert(*slot);
    } else {
      if (slot) cache_.Clear(*slot);
      scheduler_.Remove(id);
    }
    live_.erase(id);
  }

  void RollFull() {
    for (auto& [id, s] : live_) {
      const std::optional<int64_t> slot = scheduler_.SlotOf(id);
      if (!slot || !s.rolls || cache_.Length(*slot) < Limit(s, *slot)) continue;
      if (Draw(4) == 0) {  // what is kept is computed again
        const int64_t n_kept = settings_.n_ctx / 2;
        s.n_total = std::max(s.n_total - s.next, int64_t{1}) + n_kept;
        s.n_prompt = n_kept;
        s.next = 0;
        cache_.Clear(*slot);
        scheduler_.Restart(id, n_kept, settings_.n_ctx);
      } else {
        cache_.Evict(*slot, 64);
        scheduler_.SetLimit(id, Limit(s, *slot));
      }
    }
  }

  void Admit() {
    scheduler_.Admit([this](int64_t id, int64_t slot) {
      EXPECT_EQ(live_.count(id), 1u);
      EXPECT_EQ(cache_.Length(slot), 0) << "a slot is empty when it is given";
      EXPECT_EQ(sessions_.count(slot), 0u);
      if (!HasRoomFor(live_[id], slot)) return std::optional<Admission>();
      return std::optional<Admission>(
          {.n_computed = 0, .limit = settings_.n_ctx});
    });
  }

  bool HasRoomFor(const Live& s, int64_t slot) {
    if (settings_.preempts) {
      return PromisedPages(Claims()) + ToCome(s, slot) <= cache_.free_pages();
    }
    CountReservations();
    return reservations_.left() >= (s.rolls
                                        ? cache_.pages_per_slot()
                                        : cache_.MissingPages(slot, s.n_total));
  }

  void CountReservations() {
    reservations_.Clear();
    for (size_t i = 0; i < sessions_.size(); ++i) {
      reservations_.AddWholeContext();
    }
    scheduler_.ForRunning([this](int64_t id, int64_t slot) {
      const Live& s = live_[id];
      if (s.rolls) {
        reservations_.AddWholeContext();
      } else {
        reservations_.Add(slot, s.n_total);
      }
    });
    EXPECT_GE(reservations_.left(), 0) << "more is reserved than there is";
  }

  // Slots that others have waited for too long.
  void EndSlices() {
    if (!settings_.preempts) return;
    while (const auto id = scheduler_.WhoseSliceEnds([this](int64_t of) {
      return cache_.Evicted(*scheduler_.SlotOf(of)) == 0;
    })) {
      BeginAgain(*id, &Scheduler::Yield);
      ++n_sliced_;
      Admit();
    }
  }

  void BeginAgain(int64_t id, void (Scheduler::*leave)(int64_t, int64_t)) {
    Live& s = live_[id];
    cache_.Clear(*scheduler_.SlotOf(id));
    s.n_prompt = Known(s);
    s.next = 0;
    (scheduler_.*leave)(id, s.n_prompt);
  }

  // Rows that are known of a stream.
  static int64_t Known(const Live& s) {
    return std::max(s.n_prompt, s.next + 1);
  }

  // Pages that a stream in a slot will need and does not have.
  int64_t ToCome(const Live& s, int64_t slot) const {
    return s.rolls ? cache_.PagesToFull(slot)
                   : cache_.MissingPages(slot, Known(s));
  }

  std::vector<PageClaim> Claims() {
    std::vector<PageClaim> claims;
    for (const int64_t slot : sessions_) {
      claims.push_back({0, cache_.PagesToFull(slot), false});
    }
    scheduler_.ForRunning([&](int64_t id, int64_t slot) {
      const Live& s = live_[id];
      claims.push_back({id, ToCome(s, slot), !s.rolls});
    });
    return claims;
  }

  void MakeRoom() {
    if (!settings_.preempts) return CountReservations();
    while (const auto id = ChooseVictim(Claims(), cache_.free_pages())) {
      BeginAgain(*id, &Scheduler::Preempt);
      ++n_preempted_;
    }
  }

  void Step() {
    Admit();
    EndSlices();
    RollFull();
    for (const auto& [id, s] : live_) {
      const std::optional<int64_t> slot = scheduler_.SlotOf(id);
      if (!slot || Draw(2) == 0) continue;
      scheduler_.SetDraft(id, std::min(Draw(settings_.n_draft + 1),
                                       cache_.RoomAfterNext(*slot)));
    }
    MakeRoom();
    const bool may_prefill = scheduler_.Decoding() == 0 || Draw(8) != 0;
    const std::vector<ScheduledRows> step =
        scheduler_.NextStep(may_prefill ? 1 + Draw(40) : 0);
    CheckRows(step);
    std::set<int64_t> served;
    for (const ScheduledRows& r : step) served.insert(r.id);
    for (auto& [id, s] : live_) {
      if (!scheduler_.SlotOf(id) || s.is_paused || served.count(id) > 0) {
        s.n_waited = 0;
        continue;
      }
      EXPECT_LE(++s.n_waited, kMostWaited) << "a stream starves";
    }
    Verify(step);
  }

  void CheckRows(const std::vector<ScheduledRows>& step) {
    int64_t n_rows = 0;
    int64_t n_sampled = 0;
    bool has_prompt = false;
    std::set<int64_t> slots;
    for (const ScheduledRows& r : step) {
      ASSERT_EQ(live_.count(r.id), 1u);
      const Live& s = live_[r.id];
      EXPECT_FALSE(s.is_paused);
      EXPECT_EQ(r.first_position, s.next) << "each row once, in order";
      EXPECT_EQ(scheduler_.SlotOf(r.id), r.slot);
      EXPECT_TRUE(slots.insert(r.slot).second);
      EXPECT_EQ(r.is_decoding, r.first_position >= s.n_prompt);
      EXPECT_FALSE(r.is_decoding && has_prompt) << "decoding comes first";
      has_prompt |= !r.is_decoding;
      EXPECT_GT(r.n_rows, r.n_draft);
      EXPECT_LE(r.n_draft, settings_.n_draft);
      if (r.is_decoding) {
        EXPECT_EQ(r.n_rows, 1 + r.n_draft);
      } else {
        EXPECT_LE(r.first_position + r.n_rows, s.n_prompt);
        EXPECT_EQ(r.n_draft, 0);
      }
      EXPECT_EQ(r.samples, r.first_position + r.n_rows >= s.n_prompt);
      n_sampled += r.samples ? 1 + r.n_draft : 0;
      n_rows += r.n_rows;
      EXPECT_LE(r.first_position + r.n_rows, Limit(s, r.slot));
      EXPECT_TRUE(cache_.Extend(r.slot, r.first_position + r.n_rows).ok());
      EXPECT_LE(std::ssize(cache_.Pages(r.slot)), plan_.kv.pages_per_slot)
          << "no more pages than planned";
    }
    EXPECT_LE(n_rows, settings_.n_rows);
    EXPECT_LE(n_sampled, settings_.n_slots * (1 + settings_.n_draft));
  }

  // Some guesses were wrong; who has all its rows ends.
  void Verify(const std::vector<ScheduledRows>& step) {
    for (const ScheduledRows& r : step) {
      Live& s = live_[r.id];
      const int64_t n_wrong = r.n_draft > 0 ? Draw(r.n_draft + 1) : 0;
      s.next += r.n_rows - n_wrong;
      if (r.n_draft > 0) {
        cache_.Truncate(r.slot, s.next);
        scheduler_.Reject(r.id, n_wrong);
      }
      EXPECT_EQ(cache_.Length(r.slot), s.next);
      if (s.next >= s.n_total) End(r.id, s.stays);
    }
  }

  std::mt19937 random_;
  Settings settings_;
  Scheduler scheduler_;
  planner::ModelShape shape_;
  planner::MemoryPlan plan_;
  KvCache cache_;
  PageReservations reservations_;
  int64_t n_pages_ = 0;
  std::map<int64_t, Live> live_;
  std::set<int64_t> sessions_;  // slots of those that nobody uses now
  int64_t next_id_ = 1;
  int64_t n_preempted_ = 0;
  int64_t n_sliced_ = 0;
};

TEST(SchedulerSimulation, NoWorkloadStarvesLosesARowOrTakesMorePages) {
  int64_t n_preempted = 0;
  int64_t n_sliced = 0;
  for (uint32_t seed = 1; seed <= kWorkloads; ++seed) {
    SCOPED_TRACE(seed);
    Workload workload(seed, /*preempts=*/true);
    workload.Run();
    if (::testing::Test::HasFailure()) return;
    n_preempted += workload.n_preempted();
    n_sliced += workload.n_sliced();
  }
  EXPECT_GT(n_sliced, kWorkloads / 100);
  EXPECT_GT(n_preempted, kWorkloads / 100);
}

// Every stream that begins goes on to its end: CheckRows finds a page for each
// of its rows, and all of them end though nobody makes way.
TEST(SchedulerSimulation, WithoutPreemptionEveryWorkloadEnds) {
  for (uint32_t seed = 1; seed <= kWorkloads / 3; ++seed) {
    SCOPED_TRACE(seed);
    Workload workload(seed, /*preempts=*/false);
    workload.Run();
    if (::testing::Test::HasFailure()) return;
    EXPECT_EQ(workload.n_preempted() + workload.n_sliced(), 0);
  }
}

}  // namespace
}  // namespace plimsoll::worker
