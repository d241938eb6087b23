// The merging that SPM and byte-level BPE share: join the best adjacent pair of
// symbols until no pair has a rule.
#ifndef PLIMSOLL_WORKER_PAIR_MERGE_H_
#define PLIMSOLL_WORKER_PAIR_MERGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "worker/stop_counter.h"

namespace plimsoll::worker {

// What joining two symbols gives.
struct MergeRule {
  uint32_t rank;  // lower goes first; less than the largest uint32_t
  int32_t id;     // of the joined symbol
};

struct MergeSymbol {
  uint32_t begin;  // byte offset
  uint32_t bytes;  // 0 once it was joined to its left neighbour
  int32_t id;      // in the vocabulary, or -1
  int32_t prev = -1;
  int32_t next = -1;
};

// Scratch of one Encode call; not thread-safe. Few symbols are scanned again
// after every join, which is quick. Of many, the pairs wait by rank, in the
// order of the text: work is linear, but for sorting what comes out of order.
class PairMerger {
 public:
  static constexpr size_t kMaxScanned = 32;  // symbols

  // The symbols of one piece, set by the caller in order; after Run those with
  // bytes > 0 are the result.
  std::vector<MergeSymbol> symbols;

  // Joins pairs, lowest rank first and leftmost among equals. `find_rule(left,
  // right)` returns std::optional<MergeRule> for two adjacent symbols.
  // Errors: what `stop` says.
  template <typename FindRule>
  absl::Status Run(const FindRule& find_rule, StopCounter& stop) {
    if (symbols.size() > kMaxScanned) return RunByRank(find_rule, stop);
    RunByScan(find_rule);
    return absl::OkStatus();
  }

 private:
  static constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

  struct Pair {
    int32_t left;
    uint32_t bytes;  // of both when the pair was found
    int32_t id;
  };
  struct EarlyPair {
    uint32_t rank;
    Pair pair;
  };

  static bool IsLater(const EarlyPair& a, const EarlyPair& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.pair.left > b.pair.left;
  }

  template <typename FindRule>
  void RunByScan(const FindRule& find_rule) {
    std::array<MergeRule, kMaxScanned> rules;  // of a symbol with the next one
    size_t n = symbols.size();
    const auto look_up = [&](size_t i) {
      rules[i] = find_rule(symbols[i], symbols[i + 1])
                     .value_or(MergeRule{kNoRank, -1});
    };
    for (size_t i = 0; i + 1 < n; ++i) look_up(i);
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i) {
        if (rules[i].rank < rules[best].rank) best = i;
      }
      if (rules[best].rank == kNoRank) break;
      symbols[best].bytes += symbols[best + 1].bytes;
      symbols[best].id = rules[best].id;
      for (size_t i = best + 1; i + 1 < n; ++i) {
        symbols[i] = symbols[i + 1];
        rules[i] = rules[i + 1];
      }
      --n;
      if (best + 1 < n) look_up(best);
      if (best > 0) look_up(best - 1);
    }
    symbols.resize(n);
  }

  template <typename FindRule>
  absl::Status RunByRank(const FindRule& find_rule, StopCounter& stop) {
    const auto n = static_cast<int32_t>(symbols.size());
    Clear();
    for (int32_t i = 0; i < n; ++i) {
      At(i).prev = i - 1;
      At(i).next = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i + 1 < n; ++i) {
      if (absl::Status status = stop.Spend(1); !status.ok()) return status;
      Push(i, find_rule);
    }
    while (!ranks_.empty()) {
      TakeLowestRank();
      for (const Pair& pair : now_) {
        if (absl::Status status = stop.Spend(1); !status.ok()) return status;
        JoinEarly({static_cast<uint32_t>(rank_), pair}, find_rule);
        JoinIfCurrent(pair, find_rule);
      }
      JoinEarly({kNoRank, {}}, find_rule);
      rank_ = -1;
    }
    return absl::OkStatus();
  }

  void Clear() {
    rank_ = -1;
    ranks_.clear();
    early_.clear();
    buckets_.clear();
    bucket_numbers_.clear();
  }

  // Makes the pairs of the lowest rank those of `now_`, in the text's order.
  void TakeLowestRank() {
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    rank_ = ranks_.back();
    ranks_.pop_back();
    const auto found = bucket_numbers_.find(static_cast<uint32_t>(rank_));
    now_ = std::move(buckets_[found->second]);
    bucket_numbers_.erase(found);
    const auto is_left = [](const Pair& a, const Pair& b) {
      return a.left < b.left;
    };
    if (!std::is_sorted(now_.begin(), now_.end(), is_left)) {
      std::sort(now_.begin(), now_.end(), is_left);
    }
  }

  MergeSymbol& At(int32_t i) { return symbols[static_cast<size_t>(i)]; }

  template <typename FindRule>
  void Push(int32_t left, const FindRule& find_rule) {
    if (left < 0 || At(left).next < 0) return;
    const MergeSymbol& a = At(left);
    const MergeSymbol& b = At(a.next);
    const std::optional<MergeRule> rule = find_rule(a, b);
    if (!rule) return;
    const Pair pair = {left, a.bytes + b.bytes, rule->id};
    if (int64_t{rule->rank} <= rank_) {
      early_.push_back({rule->rank, pair});
      std::push_heap(early_.begin(), early_.end(), IsLater);
      return;
    }
    const auto [found, is_new] = bucket_numbers_.try_emplace(
        rule->rank, static_cast<uint32_t>(buckets_.size()));
    if (is_new) {
      buckets_.emplace_back();
      ranks_.push_back(rule->rank);
      std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    }
    buckets_[found->second].push_back(pair);
  }

  // Joins the early pairs that come before `next`.
  template <typename FindRule>
  void JoinEarly(const EarlyPair& next, const FindRule& find_rule) {
    while (!early_.empty() && IsLater(next, early_.front())) {
      std::pop_heap(early_.begin(), early_.end(), IsLater);
      const Pair pair = early_.back().pair;
      early_.pop_back();
      JoinIfCurrent(pair, find_rule);
    }
  }

  // Symbols only grow, so a pair is out of date iff its left symbol is gone or
  // the two no longer have the bytes they had.
  template <typename FindRule>
  void JoinIfCurrent(const Pair& pair, const FindRule& find_rule) {
    MergeSymbol& left = At(pair.left);
    if (left.bytes == 0 || left.next < 0) return;
    MergeSymbol& right = At(left.next);
    if (left.bytes + right.bytes != pair.bytes) return;
    left.bytes += right.bytes;
    left.id = pair.id;
    left.next = right.next;
    if (right.next >= 0) At(right.next).prev = pair.left;
    right.bytes = 0;
    Push(pair.left, find_rule);
    Push(left.prev, find_rule);
  }

  // The rank whose pairs are being joined, or -1.
  int64_t rank_ = -1;
  std::vector<Pair> now_;
  std::vector<uint32_t> ranks_;  // a heap: those that have pairs, lowest first
  std::vector<std::vector<Pair>> buckets_;
  absl::flat_hash_map<uint32_t, uint32_t> bucket_numbers_;  // by rank
  // Found while pairs of the same or a higher rank are joined; a heap.
  std::vector<EarlyPair> early_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_PAIR_MERGE_H_
