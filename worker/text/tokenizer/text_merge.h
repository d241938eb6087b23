// Merges texts of any length in windows, so that its scratch memory is small
// and stays in a near cache.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TEXT_MERGE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TEXT_MERGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "worker/text/stop_counter.h"
#include "worker/text/tokenizer/pair_merge.h"

namespace plimsoll::worker {

// A rule that joins a symbol to the `bytes` bytes that follow it.
struct AcrossRule {
  uint32_t rank;
  size_t bytes;
};

// Merging a text gives the same symbols as merging its parts separately, if no
// join reaches across the border between the parts. The end of a symbol is
// certainly such a border, whatever follows the window, if
// - until the symbol is whole, each rule that could join its last part to the
// text after it has at least the rank of the symbol's own next join (among
// equal ranks the left join goes first);
// - once the symbol is whole, there is no such rule.
// The joins inside a symbol depend on its own text only, so this text is merged
// again to find them. Two kinds of following text do not count:
// - text that does not become one symbol when it is merged by itself;
// - text that has joined the character after it before the rule's turn comes:
// all of its own ranks, and the rank of this join, are lower than the rule's,
// and nothing joins that character to the right earlier, which is checked in
// the same way.
// If a window has no such end, it is made twice as long.
//
// `Rules` has
//   MergeSymbol First(text, begin): the symbol of one character or byte;
//   std::optional<MergeRule> Find(text, left, right), which depends on the
//     bytes and ids of the two only;
//   ListAcross(text, symbol, out): sets `out` to the rules that may join
//     `symbol`, as the left one, to what follows it in `text`.
//
// Scratch of one Encode call; not thread-safe.
class TextMerger {
 public:
  static constexpr size_t kWindow = 512;  // symbols at first
  // A window grows after this many ends of symbols have been checked.
  static constexpr size_t kMaxEnds = 32;
  // A join may depend on a chain of at most this many joins to its right. A
  // longer chain counts as possible.
  static constexpr size_t kMaxDepth = 4;
  // For one end, at most this many joins are checked; further ones count as
  // possible.
  static constexpr int kMaxLooks = 128;

  // Calls `emit(symbol)` for each symbol of the merged `text`, in order.
  // Errors: those of `stop`.
  template <typename Rules, typename Emit>
  absl::Status Run(absl::string_view text, Rules& rules, StopCounter& stop,
                   const Emit& emit) {
    size_t begin = 0;
    size_t n_window = kWindow;
    while (begin < text.size()) {
      const size_t end = Fill(text, begin, n_window, rules);
      RETURN_IF_ERROR(window_.Run(
          [&](const MergeSymbol& left, const MergeSymbol& right) {
            return rules.Find(text, left, right);
          },
          stop));
      size_t n_certain = window_.symbols.size();
      if (end < text.size()) {
        RETURN_IF_ERROR(CountCertain(Job<Rules>{text, rules, stop},
                                     begin + (end - begin) / 2, n_certain));
      }
      if (n_certain == 0) {
        n_window *= 2;
        continue;
      }
      for (size_t i = 0; i < n_certain; ++i) emit(window_.symbols[i]);
      begin = EndOf(window_.symbols[n_certain - 1]);
      n_window = kWindow;
    }
    return absl::OkStatus();
  }

 private:
  // The text and the rules of one Run.
  template <typename Rules>
  struct Job {
    absl::string_view text;
    Rules& rules;
    StopCounter& stop;
  };

  static size_t EndOf(const MergeSymbol& symbol) {
    return size_t{symbol.begin} + symbol.bytes;
  }

  // Fills the window with `n` symbols of the text from `begin` on, or with all
  // remaining ones. Returns the end of the window.
  template <typename Rules>
  size_t Fill(absl::string_view text, size_t begin, size_t n, Rules& rules) {
    window_.symbols.clear();
    while (begin < text.size() && window_.symbols.size() < n) {
      window_.symbols.push_back(rules.First(text, begin));
      begin = EndOf(window_.symbols.back());
    }
    return begin;
  }

  // Sets `n` to the number of symbols of the merged window that are certain: 0,
  // or enough to reach `least_end`.
  template <typename Rules>
  absl::Status CountCertain(const Job<Rules>& job, size_t least_end,
                            size_t& n) {
    n = window_.symbols.size();
    for (size_t ends = 0; ends < kMaxEnds && n > 0; ++ends, --n) {
      const MergeSymbol& symbol = window_.symbols[n - 1];
      if (EndOf(symbol) < least_end) break;
      bool is_certain = false;
      RETURN_IF_ERROR(CheckEnd(job, symbol, is_certain));
      if (is_certain) return absl::OkStatus();
    }
    n = 0;
    return absl::OkStatus();
  }

  // Sets `is_certain` if nothing after `symbol` can be joined to it or to a
  // part of it.
  template <typename Rules>
  absl::Status CheckEnd(const Job<Rules>& job, const MergeSymbol& symbol,
                        bool& is_certain) {
    n_looks_ = 0;
    is_certain = LowestAcross(job, symbol, kNoRank, 0) == kNoRank;
    if (!is_certain) return job.stop.Spend(1);
    FillFragment(job, symbol.begin, EndOf(symbol), fragment_);
    uint32_t lowest = LowestAcross(job, fragment_.symbols.back(), kNoRank, 0);
    return fragment_.Run(
        [&](const MergeSymbol& left, const MergeSymbol& right) {
          return job.rules.Find(job.text, left, right);
        },
        job.stop,
        [&](const MergeSymbol& left, const MergeSymbol& right,
            const MergeRule& rule, bool is_last) {
          if (lowest < rule.rank) is_certain = false;
          if (!is_last || !is_certain) return;
          lowest = LowestAcross(
              job, {left.begin, left.bytes + right.bytes, rule.id}, kNoRank, 0);
        });
  }

  // The lowest rank below `limit` of the rules that may join `symbol` to what
  // follows it; `limit` if there is none.
  template <typename Rules>
  uint32_t LowestAcross(const Job<Rules>& job, const MergeSymbol& symbol,
                        uint32_t limit, size_t depth) {
    std::vector<AcrossRule>& across = looks_[depth].across;
    job.rules.ListAcross(job.text, symbol, across);
    for (const AcrossRule& rule : across) {
      if (rule.rank < limit && IsThere(job, EndOf(symbol), rule, depth)) {
        limit = rule.rank;
      }
    }
    return limit;
  }

  // True if the text that `rule` joins, from `begin` on, may be one symbol when
  // it is the rule's turn. It is assumed that no join comes from the left.
  template <typename Rules>
  bool IsThere(const Job<Rules>& job, size_t begin, const AcrossRule& rule,
               size_t depth) {
    if (++n_looks_ > kMaxLooks) return true;
    PairMerger& next = looks_[depth].next;
    const size_t end = begin + rule.bytes;
    FillFragment(job, begin, end, next);
    uint32_t highest = 0;
    const absl::Status status = next.Run(
        [&](const MergeSymbol& left, const MergeSymbol& right) {
          return job.rules.Find(job.text, left, right);
        },
        job.stop,
        [&](const MergeSymbol&, const MergeSymbol&, const MergeRule& join,
            bool) { highest = std::max(highest, join.rank); });
    if (!status.ok()) return true;
    if (next.symbols.size() > 1) return false;
    if (end == job.text.size()) return true;
    const MergeSymbol after = job.rules.First(job.text, end);
    const auto join = job.rules.Find(job.text, next.symbols[0], after);
    if (!join) return true;
    highest = std::max(highest, join->rank);
    if (highest >= rule.rank || depth + 1 == kMaxDepth) return true;
    return LowestAcross(job, after, highest, depth + 1) < highest;
  }

  template <typename Rules>
  static void FillFragment(const Job<Rules>& job, size_t begin, size_t end,
                           PairMerger& fragment) {
    fragment.symbols.clear();
    while (begin < end) {
      fragment.symbols.push_back(job.rules.First(job.text, begin));
      begin = EndOf(fragment.symbols.back());
    }
  }

  PairMerger window_;
  PairMerger fragment_;  // one symbol of the window, merged again
  struct Look {
    std::vector<AcrossRule> across;  // rules of one symbol
    PairMerger next;                 // merges the text that one rule joins
  };
  std::array<Look, kMaxDepth> looks_;
  int n_looks_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TEXT_MERGE_H_
