// A tenant within its share under floods of others, of every kind that random
// numbers find, as the engine drives the scheduler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sanitized.h"
#include "worker/cache/page_claims.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {
namespace {

constexpr uint32_t kFloods = plimsoll::testing::kIsSanitized ? 60 : 120;
constexpr int64_t kFloodSteps = 12'000;  // steps of each flood
constexpr int64_t kMostPeers = 3;        // peers that flood
constexpr int64_t kMostSlots = 4;
constexpr int64_t kLeastRows = 32;  // rows of a step
constexpr int64_t kPageTokens = 64;
constexpr int64_t kMostCtx = 1'024;
constexpr int64_t kLongPrompt = 200;  // contexts

// Steps until the longest slice ends, once another has waited for it.
constexpr int64_t kSlice =
    Scheduler::kLeastSlice + kMostCtx / Scheduler::kRowsOfSlice;
// Steps that the contexts of all slots take.
constexpr int64_t kContexts = kMostSlots * kMostCtx / (kLeastRows - kMostSlots);
// Steps until the first token of a tenant that has nothing else. Where all
// slots are others' it waits for the end of a slice. Each other peer may be
// before it twice: it may have been served less, by what a prompt costs in
// advance, which is two slices. Contexts take turns, its own too.
static_assert(Scheduler::kMostInAdvance <= 2 * Scheduler::kLeastSlice);
constexpr int64_t kBound = Scheduler::kMostWaitedOfInexact +
                           (1 + 2 * kMostPeers) * (kSlice + kContexts);

// What the requests of a flood are.
enum class Kind {
  kShort,
  kPrompt,         // a long one
  kStream,         // until its context is full
  kRollingStream,  // without an end
  kRollingPrompt,  // many times as long as the context
  kMixed,
};
constexpr int64_t kKinds = 6;

// Peers that flood from the first step on: each with names of its own, with
// requests of a kind, as many as are taken. They may have a pool of pages for
// less than all slots, readers that are behind, and requests that are
// cancelled.
class Flood {
 public:
  explicit Flood(uint32_t seed)
      : random_(seed),
        n_peers_(1 + Draw(kMostPeers)),
        n_names_(Draw(2) == 0 ? 1 : 1'000),
        kind_(static_cast<Kind>(Draw(kKinds))),
        has_same_peer_(Draw(4) == 0),
        n_slots_(1 + Draw(kMostSlots)),
        n_ctx_(kPageTokens * (4 + Draw(kMostCtx / kPageTokens - 3))),
        n_pages_(Pages(n_ctx_) +
                 (Draw(2) == 0 ? (n_slots_ - 1) * Pages(n_ctx_)
                               : Draw((n_slots_ - 1) * Pages(n_ctx_) + 1))),
        free_copies_(Draw(3)),
        shifts_(Draw(4) != 0),
        has_slow_readers_(Draw(2) == 0),
        has_cancels_(Draw(2) == 0),
        scheduler_(n_slots_, kLeastRows + Draw(33), 6 + Draw(59), n_ctx_) {}

  void Run() {
    for (int64_t step = 0; step < kFloodSteps && !Failed(); ++step) {
      for (int i = 0; i < 3; ++i) AddToFlood();
      MaybeCancelOrPark();
      Probe(step);
      Step(step);
    }
    EXPECT_GT(n_answered_, kFloodSteps / (kBound + 300) / 2);
  }

  int64_t longest() const { return longest_; }
  int64_t n_preempted() const { return n_preempted_; }

 private:
  struct Live {
    int64_t n_prompt;
    int64_t n_total;  // rows until it ends
    bool rolls = false;
    int64_t next = 0;
    int64_t evicted = 0;    // positions whose tokens have left
    bool has_copy = false;  // its context has a copy while it waits
    bool is_parked = false;
    int64_t known() const { return std::max(n_prompt, next + 1); }
    bool has_spoken() const { return next >= n_prompt; }
  };

  static bool Failed() { return ::testing::Test::HasFailure(); }
  static int64_t Pages(int64_t n) {
    return (n + kPageTokens - 1) / kPageTokens;
  }

  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  bool Add(const Live& live, const Claim& claim) {
    if (const auto gone = scheduler_.GivesWayTo(claim)) {
      scheduler_.Remove(*gone);
      EXPECT_NE(*gone, probe_) << "which has one request only";
      live_.erase(*gone);
    }
    if (!scheduler_.Add(next_id_, live.n_prompt, claim).ok()) return false;
    live_[next_id_++] = live;
    return true;
  }

  Live DrawRequest() {
    const Kind kind =
        kind_ == Kind::kMixed ? static_cast<Kind>(Draw(kKinds - 1)) : kind_;
    constexpr int64_t kNoEnd = int64_t{1} << 40;
    const int64_t n_few = 1 + Draw(6);
    switch (kind) {
      case Kind::kPrompt: {
        const int64_t n_prompt = 1 + Draw(200);
        return {.n_prompt = n_prompt,
                .n_total = std::min(n_ctx_, n_prompt + 1 + Draw(200))};
      }
      case Kind::kStream:
        return {.n_prompt = n_few, .n_total = n_ctx_};
      case Kind::kRollingStream:
        return {.n_prompt = n_few, .n_total = kNoEnd, .rolls = true};
      case Kind::kRollingPrompt: {
        const int64_t n_prompt = kLongPrompt * n_ctx_;
        return {.n_prompt = n_prompt, .n_total = n_prompt + 1, .rolls = true};
      }
      default:
        return {.n_prompt = n_few, .n_total = n_few + 1 + Draw(4)};
    }
  }

  void AddToFlood() {
    Add(DrawRequest(),
        {.tenant = absl::StrCat("flood ", Draw(n_names_)),
         .priority = Draw(2) == 0 ? Priority::kHigh : Priority::kNormal,
         .peer = absl::StrCat("peer ", Draw(n_peers_))});
  }

  void MaybeCancelOrPark() {
    std::vector<int64_t> cancelled;
    for (auto& [id, s] : live_) {
      if (id == probe_) continue;
      const int64_t what = Draw(200);
      if (has_cancels_ && what == 0) cancelled.push_back(id);
      if (!has_slow_readers_ || what == 0 || what > 4) continue;
      const bool parks =
          !s.is_parked && s.has_spoken() && scheduler_.SlotOf(id);
      if (parks == s.is_parked) continue;
      s.is_parked = parks;
      parks ? scheduler_.Park(id) : scheduler_.Unpark(id);
    }
    for (const int64_t id : cancelled) End(id);
  }

  // One request at a time, of the lowest priority: it is always taken.
  void Probe(int64_t step) {
    if (probe_ != 0 || Draw(100) != 0) return;
    probe_ = next_id_;
    asked_ = step;
    const int64_t n_prompt = 1 + Draw(Draw(4) == 0 ? n_ctx_ - 20 : 40);
    // Names of one peer share what that peer has, so there are few of them.
    const bool is_same_peer = has_same_peer_ && n_names_ == 1;
    EXPECT_TRUE(Add({.n_prompt = n_prompt, .n_total = n_prompt + Draw(20)},
                    {.tenant = "probe",
                     .priority = Priority::kLow,
                     .peer = is_same_peer ? "peer 0" : "elsewhere"}))
        << "a tenant within its share is not refused";
  }

  void End(int64_t id) {
    if (live_.at(id).has_copy) ++free_copies_;
    scheduler_.Remove(id);
    live_.erase(id);
  }

  // Positions that fit in the slot of a stream as it is now.
  int64_t Limit(const Live& s) const { return n_ctx_ + s.evicted; }

  // A context that rolls has the promise of all its pages.
  int64_t PagesOf(const Live& s) const {
    return Pages(s.rolls ? n_ctx_ : s.known());
  }

  std::vector<PageClaim> Claims() {
    std::vector<PageClaim> claims;
    scheduler_.ForRunning([&](int64_t id, int64_t) {
      const Live& s = live_.at(id);
      claims.push_back({id, PagesOf(s), /*can_leave=*/!s.rolls});
    });
    return claims;
  }

  void Admit() {
    scheduler_.Admit([this](int64_t id, int64_t) -> std::optional<Admission> {
      Live& s = live_.at(id);
      if (PromisedPages(Claims()) + PagesOf(s) > n_pages_) return std::nullopt;
      if (s.has_copy) ++free_copies_;
      s.has_copy = false;
      return Admission{.n_computed = s.next, .limit = Limit(s)};
    });
  }

  void EndSlices() {
    const auto is_exact = [this](int64_t id) {
      return live_.at(id).evicted == 0 || free_copies_ > 0;
    };
    while (const auto id = scheduler_.WhoseSliceEnds(is_exact)) {
      Live& s = live_.at(*id);
      s.has_copy = s.evicted > 0 && free_copies_ > 0;
      if (s.has_copy) {
        --free_copies_;
      } else {
        StartOver(s);
      }
      scheduler_.Yield(*id, s.known());
      Admit();
    }
  }

  // Its positions begin at 0 again, with what has not left.
  static void StartOver(Live& s) {
    s.n_prompt = s.known() - s.evicted;
    s.n_total -= s.evicted;
    s.next = 0;
    s.evicted = 0;
  }

  void RollFull() {
    for (auto& [id, s] : live_) {
      if (!s.rolls || !scheduler_.SlotOf(id) || s.next < Limit(s)) continue;
      s.evicted += kPageTokens * (1 + Draw(Pages(n_ctx_) / 4));
      if (shifts_) {
        scheduler_.SetLimit(id, Limit(s));
      } else {
        StartOver(s);
        scheduler_.Restart(id, s.n_prompt, n_ctx_);
      }
      scheduler_.BeginSlice(id);
    }
  }

  void MakeRoom() {
    while (const auto id = ChooseVictim(Claims(), n_pages_)) {
      Live& s = live_.at(*id);
      StartOver(s);
      scheduler_.Preempt(*id, s.n_prompt);
      ++n_preempted_;
    }
  }

  void Step(int64_t step) {
    Admit();
    EndSlices();
    RollFull();
    MakeRoom();
    for (const ScheduledRows& r : scheduler_.NextStep()) {
      Live& s = live_.at(r.id);
      s.next += r.n_rows;
      if (r.id == probe_ && r.samples && asked_ >= 0) {
        const int64_t n_steps = step + 1 - asked_;
        longest_ = std::max(longest_, n_steps);
        EXPECT_LE(n_steps, kBound);
        asked_ = -1;
        ++n_answered_;
      }
      if (s.next < s.n_total) continue;
      if (r.id == probe_) probe_ = 0;
      End(r.id);
    }
    EXPECT_TRUE(asked_ < 0 || step - asked_ <= kBound);
  }

  std::mt19937 random_;
  const int64_t n_peers_;
  const int64_t n_names_;  // names of each
  const Kind kind_;
  const bool has_same_peer_;
  const int64_t n_slots_;
  const int64_t n_ctx_;
  const int64_t n_pages_;  // pages of all slots
  int64_t free_copies_;    // room for contexts that wait
  const bool shifts_;      // contexts that are full, or else begins them anew
  const bool has_slow_readers_;
  const bool has_cancels_;
  Scheduler scheduler_;
  std::map<int64_t, Live> live_;
  int64_t next_id_ = 1;
  int64_t probe_ = 0;   // its request; 0 = none
  int64_t asked_ = -1;  // the step in which it came, until its first token
  int64_t longest_ = 0;
  int64_t n_answered_ = 0;
  int64_t n_preempted_ = 0;
};

TEST(SchedulerShares, ATenantWithinItsShareGetsItsFirstTokenWhateverOthersDo) {
  int64_t longest = 0;
  int64_t n_preempted = 0;
  for (uint32_t seed = 1; seed <= kFloods; ++seed) {
    SCOPED_TRACE(seed);
    Flood flood(seed);
    flood.Run();
    if (::testing::Test::HasFailure()) return;
    longest = std::max(longest, flood.longest());
    n_preempted += flood.n_preempted();
  }
  RecordProperty("longest_wait_in_steps", static_cast<int>(longest));
  EXPECT_GT(longest, Scheduler::kMostWaited) << "the floods were none";
  EXPECT_GT(n_preempted, kFloods / 10) << "no pool was too small";
}

}  // namespace
}  // namespace plimsoll::worker
