// A tenant within its share under floods of others, of every kind that random
// numbers find, as the engine drives the scheduler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sanitized.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {
namespace {

constexpr uint32_t kFloods = plimsoll::testing::kIsSanitized ? 10 : 100;
constexpr int64_t kSteps = 12'000;  // of each
constexpr int64_t kMostPeers = 3;   // that flood
constexpr int64_t kMostSlots = 4;
constexpr int64_t kLeastRows = 32;    // of a step
constexpr int64_t kMostRows = 1'024;  // of a sequence

// Steps of a whole slice beside one that waits.
constexpr int64_t kSlice = Scheduler::kMostWaited + Scheduler::kLeastSlice +
                           kMostRows / Scheduler::kRowsOfSlice;
// Steps that the prompts of all slots take.
constexpr int64_t kPrompts = kMostSlots * kMostRows / (kLeastRows - kMostSlots);
// Steps until the first token of a tenant that has nothing else. Where all
// slots are others' it waits for the end of a slice, and each other peer may be
// before it once. Prompts take turns, its own too.
constexpr int64_t kBound = (1 + kMostPeers) * (kSlice + kPrompts);

// Peers that flood from the first step on: each with names of its own, with
// short requests, long prompts or streams that never end, as many as are taken.
class Flood {
 public:
  explicit Flood(uint32_t seed)
      : random_(seed),
        n_peers_(1 + Draw(kMostPeers)),
        n_names_(Draw(2) == 0 ? 1 : 1'000),
        kind_(Draw(4)),
        has_same_peer_(Draw(4) == 0),
        scheduler_(1 + Draw(kMostSlots), kLeastRows + Draw(33), 4 + Draw(61)) {}

  void Run() {
    for (int64_t step = 0; step < kSteps && !Failed(); ++step) {
      for (int i = 0; i < 3; ++i) AddToFlood();
      Probe(step);
      Step(step);
    }
    EXPECT_GT(n_answered_, kSteps / (kBound + 300) / 2);
  }

  int64_t longest() const { return longest_; }

 private:
  struct Live {
    int64_t n_prompt;
    int64_t n_total;  // rows until it ends
    int64_t next = 0;
    int64_t known() const { return std::max(n_prompt, next + 1); }
  };

  static bool Failed() { return ::testing::Test::HasFailure(); }

  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  bool Add(const Live& live, const Claim& claim) {
    if (const auto gone = scheduler_.GiveWayTo(claim)) {
      EXPECT_NE(*gone, probe_) << "which has one request only";
      live_.erase(*gone);
    }
    if (!scheduler_.Add(next_id_, live.n_prompt, claim).ok()) return false;
    live_[next_id_++] = live;
    return true;
  }

  void AddToFlood() {
    const int64_t kind = kind_ == 3 ? Draw(3) : kind_;
    const int64_t n_prompt = kind == 1 ? 1 + Draw(200) : 1 + Draw(6);
    const int64_t n_reply = kind == 2 ? kMostRows - n_prompt : 1 + Draw(4);
    Add({.n_prompt = n_prompt, .n_total = n_prompt + n_reply},
        {.tenant = absl::StrCat("flood ", Draw(n_names_)),
         .priority = Draw(2) == 0 ? Priority::kHigh : Priority::kNormal,
         .peer = absl::StrCat("peer ", Draw(n_peers_))});
  }

  // One request at a time, of the lowest priority: it is always taken.
  void Probe(int64_t step) {
    if (probe_ != 0 || Draw(100) != 0) return;
    probe_ = next_id_;
    asked_ = step;
    const int64_t n_prompt = 1 + Draw(40);
    // Names of one peer share what that peer has, so there are few of them.
    const bool is_same_peer = has_same_peer_ && n_names_ == 1;
    EXPECT_TRUE(Add({.n_prompt = n_prompt, .n_total = n_prompt + Draw(20)},
                    {.tenant = "probe",
                     .priority = Priority::kLow,
                     .peer = is_same_peer ? "peer 0" : "elsewhere"}))
        << "a tenant within its share is not refused";
  }

  void Step(int64_t step) {
    const auto begin = [](int64_t, int64_t) {
      return Admission{.n_computed = 0, .limit = Scheduler::kNoLimit};
    };
    scheduler_.Admit(begin);
    while (const auto id =
               scheduler_.WhoseSliceEnds([](int64_t) { return true; })) {
      Live& s = live_.at(*id);
      s.n_prompt = s.known();
      s.next = 0;
      scheduler_.Yield(*id, s.n_prompt);
      scheduler_.Admit(begin);
    }
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
      scheduler_.Remove(r.id);
      live_.erase(r.id);
    }
    EXPECT_TRUE(asked_ < 0 || step - asked_ <= kBound);
  }

  std::mt19937 random_;
  const int64_t n_peers_;
  const int64_t n_names_;  // of each
  const int64_t kind_;
  const bool has_same_peer_;
  Scheduler scheduler_;
  std::map<int64_t, Live> live_;
  int64_t next_id_ = 1;
  int64_t probe_ = 0;   // its request; 0 = none
  int64_t asked_ = -1;  // the step in which it came, until its first token
  int64_t longest_ = 0;
  int64_t n_answered_ = 0;
};

TEST(SchedulerShares, ATenantWithinItsShareGetsItsFirstTokenWhateverOthersDo) {
  int64_t longest = 0;
  for (uint32_t seed = 1; seed <= kFloods; ++seed) {
    SCOPED_TRACE(seed);
    Flood flood(seed);
    flood.Run();
    if (::testing::Test::HasFailure()) return;
    longest = std::max(longest, flood.longest());
  }
  RecordProperty("longest_wait_in_steps", static_cast<int>(longest));
  EXPECT_GT(longest, Scheduler::kMostWaited) << "the floods were none";
}

}  // namespace
}  // namespace plimsoll::worker
