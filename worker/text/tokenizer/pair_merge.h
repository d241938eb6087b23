// The merging that SPM and byte-level BPE share: it joins the best adjacent
// pair of symbols until no pair has a rule.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PAIR_MERGE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PAIR_MERGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "worker/text/stop_counter.h"

namespace plimsoll::worker {

// The result of joining two symbols.
struct MergeRule {
  uint32_t rank;  // lower goes first; less than kNoRank
  int32_t id;     // id of the joined symbol
};

// A rank after all other ranks.
inline constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

struct MergeSymbol {
  uint32_t begin;  // byte offset
  uint32_t bytes;
  int32_t id;  // in the vocabulary, or -1
};

// Scratch of one Encode call; not thread-safe. If there are few symbols, they
// are scanned again after every join, which is quick. If there are many, the
// pairs are kept in order of rank and place: the first pairs in a sorted list,
// later pairs in a heap.
class PairMerger {
 public:
  static constexpr size_t kMaxScanned = 32;  // symbols

  // The symbols of one piece. The caller sets them in order; Run leaves those
  // that remain.
  std::vector<MergeSymbol> symbols;

  // Joins pairs, lowest rank first and leftmost among equals. `find_rule(left,
  // right)` returns std::optional<MergeRule> for two adjacent symbols.
  // `on_join(left, right, rule, is_last)` is called before each join; `is_last`
  // says that `right` is the last symbol.
  // Errors: those of `stop`.
  template <typename FindRule, typename OnJoin>
  absl::Status Run(const FindRule& find_rule, StopCounter& stop,
                   const OnJoin& on_join) {
    if (symbols.size() <= kMaxScanned) {
      RunByScan(find_rule, on_join);
      return stop.Spend(static_cast<int64_t>(symbols.size()));
    }
    return RunByRank(find_rule, stop, on_join);
  }
  template <typename FindRule>
  absl::Status Run(const FindRule& find_rule, StopCounter& stop) {
    return Run(
        find_rule, stop,
        [](const MergeSymbol&, const MergeSymbol&, const MergeRule&, bool) {});
  }

 private:
  static constexpr MergeRule kNoRule = {kNoRank, -1};

  struct Link {
    int32_t prev;
    int32_t next;    // -1 after the last
    MergeRule rule;  // with the next symbol; kNoRule if gone
  };
  // A rank and the index of the pair's left symbol. Keys have the order of
  // joins.
  using Key = uint64_t;

  template <typename FindRule, typename OnJoin>
  void RunByScan(const FindRule& find_rule, const OnJoin& on_join) {
    std::array<MergeRule, kMaxScanned> rules;  // with the next symbol
    size_t n = symbols.size();
    const auto look_up = [&](size_t i) {
      rules[i] = find_rule(symbols[i], symbols[i + 1]).value_or(kNoRule);
    };
    for (size_t i = 0; i + 1 < n; ++i) look_up(i);
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i) {
        if (rules[i].rank < rules[best].rank) best = i;
      }
      if (rules[best].rank == kNoRank) break;
      on_join(symbols[best], symbols[best + 1], rules[best], best + 2 == n);
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

  template <typename FindRule, typename OnJoin>
  absl::Status RunByRank(const FindRule& find_rule, StopCounter& stop,
                         const OnJoin& on_join) {
    const auto n = static_cast<int32_t>(symbols.size());
    links_.resize(symbols.size());
    early_.clear();
    later_.clear();
    for (int32_t i = 0; i < n; ++i) {
      if (absl::Status status = stop.Spend(1); !status.ok()) return status;
      LinkAt(i) = {i - 1, i + 1 < n ? i + 1 : -1, kNoRule};
      if (LookUp(i, find_rule)) early_.push_back(KeyOf(i));
    }
    std::sort(early_.begin(), early_.end());
    size_t n_taken = 0;  // entries of early_ that were taken
    while (n_taken < early_.size() || !later_.empty()) {
      if (absl::Status status = stop.Spend(1); !status.ok()) return status;
      Key key = 0;
      if (later_.empty() ||
          (n_taken < early_.size() && early_[n_taken] <= later_.front())) {
        key = early_[n_taken++];
      } else {
        std::pop_heap(later_.begin(), later_.end(), std::greater<>());
        key = later_.back();
        later_.pop_back();
      }
      const auto left = static_cast<int32_t>(key & kNoRank);
      // If the ranks differ, the pair is out of date. Another pair of the same
      // rank at the same place is as good, because it comes next.
      if (LinkAt(left).rule.rank == key >> 32) Join(left, find_rule, on_join);
    }
    Compact();
    return absl::OkStatus();
  }

  MergeSymbol& At(int32_t i) { return symbols[static_cast<size_t>(i)]; }
  Link& LinkAt(int32_t i) { return links_[static_cast<size_t>(i)]; }
  Key KeyOf(int32_t left) {
    return Key{LinkAt(left).rule.rank} << 32 | static_cast<uint32_t>(left);
  }

  // Looks up the rule of a symbol with the next one. Returns whether there is
  // one.
  template <typename FindRule>
  bool LookUp(int32_t left, const FindRule& find_rule) {
    Link& link = LinkAt(left);
    link.rule = link.next < 0
                    ? kNoRule
                    : find_rule(At(left), At(link.next)).value_or(kNoRule);
    return link.rule.rank != kNoRank;
  }

  template <typename FindRule, typename OnJoin>
  void Join(int32_t left, const FindRule& find_rule, const OnJoin& on_join) {
    Link& link = LinkAt(left);
    Link& right = LinkAt(link.next);
    on_join(At(left), At(link.next), link.rule, right.next < 0);
    At(left).bytes += At(link.next).bytes;
    At(left).id = link.rule.id;
    right.rule = kNoRule;
    link.next = right.next;
    if (link.next >= 0) LinkAt(link.next).prev = left;
    for (const int32_t changed : {left, link.prev}) {
      if (changed < 0 || !LookUp(changed, find_rule)) continue;
      later_.push_back(KeyOf(changed));
      std::push_heap(later_.begin(), later_.end(), std::greater<>());
    }
  }

  // Keeps the symbols that were not joined to their left neighbour.
  void Compact() {
    size_t n = 0;
    for (int32_t i = 0; i >= 0; i = LinkAt(i).next) symbols[n++] = At(i);
    symbols.resize(n);
  }

  std::vector<Link> links_;  // by index into `symbols`
  std::vector<Key> early_;   // the first pairs, sorted
  std::vector<Key> later_;   // pairs found later: a heap, lowest first
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PAIR_MERGE_H_
