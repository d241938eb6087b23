// The merging that SPM and byte-level BPE share: join the best adjacent pair of
// symbols until no pair has a rule.
#ifndef PLIMSOLL_WORKER_PAIR_MERGE_H_
#define PLIMSOLL_WORKER_PAIR_MERGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll::worker {

// What joining two symbols gives.
struct MergeRule {
  uint32_t rank;  // lower goes first
  int32_t id;     // of the joined symbol
};

struct MergeSymbol {
  uint32_t begin;  // byte offset
  uint32_t bytes;  // 0 once it was joined to its left neighbour
  int32_t id;      // in the vocabulary, or -1
  int32_t prev = -1;
  int32_t next = -1;
};

// Scratch of one Encode call; not thread-safe. `n log n` in the symbols.
class PairMerger {
 public:
  // The symbols of one piece, set by the caller in order; after Run those with
  // bytes > 0 are the result.
  std::vector<MergeSymbol> symbols;

  // Joins pairs, lowest rank first and leftmost among equals. `find_rule(left,
  // right)` returns std::optional<MergeRule> for two adjacent symbols.
  template <typename FindRule>
  void Run(const FindRule& find_rule) {
    const auto n = static_cast<int32_t>(symbols.size());
    heap_.clear();
    for (int32_t i = 0; i < n; ++i) {
      At(i).prev = i - 1;
      At(i).next = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i + 1 < n; ++i) {
      if (const auto pair = MakePair(i, find_rule)) heap_.push_back(*pair);
    }
    std::make_heap(heap_.begin(), heap_.end(), IsLater);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), IsLater);
      const Pair pair = heap_.back();
      heap_.pop_back();
      if (!IsCurrent(pair)) continue;
      Join(pair);
      Push(pair.left, find_rule);
      Push(At(pair.left).prev, find_rule);
    }
  }

 private:
  struct Pair {
    uint32_t rank;
    int32_t left;
    uint32_t bytes;  // of both when the pair was found
    int32_t id;
  };

  static bool IsLater(const Pair& a, const Pair& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }

  MergeSymbol& At(int32_t i) { return symbols[static_cast<size_t>(i)]; }

  template <typename FindRule>
  std::optional<Pair> MakePair(int32_t left, const FindRule& find_rule) {
    const MergeSymbol& a = At(left);
    const MergeSymbol& b = At(a.next);
    const std::optional<MergeRule> rule = find_rule(a, b);
    if (!rule) return std::nullopt;
    return Pair{rule->rank, left, a.bytes + b.bytes, rule->id};
  }

  template <typename FindRule>
  void Push(int32_t left, const FindRule& find_rule) {
    if (left < 0 || At(left).next < 0) return;
    if (const auto pair = MakePair(left, find_rule)) {
      heap_.push_back(*pair);
      std::push_heap(heap_.begin(), heap_.end(), IsLater);
    }
  }

  // Symbols only grow, so a pair is out of date iff its left symbol is gone or
  // the two no longer have the bytes they had.
  bool IsCurrent(const Pair& pair) {
    const MergeSymbol& left = At(pair.left);
    return left.bytes > 0 && left.next >= 0 &&
           left.bytes + At(left.next).bytes == pair.bytes;
  }

  void Join(const Pair& pair) {
    MergeSymbol& left = At(pair.left);
    MergeSymbol& right = At(left.next);
    left.bytes += right.bytes;
    left.id = pair.id;
    left.next = right.next;
    if (right.next >= 0) At(right.next).prev = pair.left;
    right.bytes = 0;
  }

  std::vector<Pair> heap_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_PAIR_MERGE_H_
