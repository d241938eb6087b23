#include "worker/text/tokenizer/pair_merge.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/worker/text/tokenizer/merge_slowly.h"

namespace plimsoll::worker {
namespace {

using Rules = std::map<std::string, uint32_t>;  // joined text -> rank

std::vector<std::string> MergeFast(const std::string& text, const Rules& rules,
                                   PairMerger& merger) {
  merger.symbols.clear();
  for (uint32_t i = 0; i < text.size(); ++i) {
    merger.symbols.push_back({i, 1, -1});
  }
  StopCounter never(NeverStop);
  const absl::Status status = merger.Run(
      [&](const MergeSymbol& left,
          const MergeSymbol& right) -> std::optional<MergeRule> {
        const auto rule =
            rules.find(text.substr(left.begin, left.bytes + right.bytes));
        if (rule == rules.end()) return std::nullopt;
        return MergeRule{rule->second, 0};
      },
      never);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> parts;
  for (const MergeSymbol& symbol : merger.symbols) {
    parts.push_back(text.substr(symbol.begin, symbol.bytes));
  }
  return parts;
}

TEST(PairMergerTest, EqualsRepeatedScansWithTiesToTheLeft) {
  std::mt19937 random(3);
  PairMerger merger;
  for (int round = 0; round < 3000; ++round) {
    Rules rules;
    for (size_t n = random() % 12; n > 0; --n) {
      // Few ranks, so that ties are common.
      rules[RandomWord(random, 2 + random() % 4, 3)] =
          static_cast<uint32_t>(random() % 4);
    }
    // Short ones are merged in another way.
    const size_t most = round % 2 == 0 ? 24 : 4 * PairMerger::kMaxScanned;
    const std::string text = RandomWord(random, random() % most, 3);
    const auto rank_of = [&](const std::string& left,
                             const std::string& right) {
      const auto rule = rules.find(left + right);
      return rule == rules.end() ? kNoRank : rule->second;
    };
    ASSERT_EQ(MergeFast(text, rules, merger),
              MergeSlowly(BytesOf(text), rank_of))
        << text;
  }
}

TEST(PairMergerTest, SaysWhatItJoinsAndWhetherTheLastSymbolTakesPart) {
  for (const size_t n :
       {PairMerger::kMaxScanned, PairMerger::kMaxScanned + 1}) {
    PairMerger merger;
    for (uint32_t i = 0; i < n; ++i) merger.symbols.push_back({i, 1, 0});
    StopCounter never(NeverStop);
    size_t n_joins = 0;
    size_t n_last = 0;
    const absl::Status status = merger.Run(
        [](const MergeSymbol&, const MergeSymbol&) {
          return std::optional<MergeRule>({7, 0});
        },
        never,
        [&](const MergeSymbol& left, const MergeSymbol& right,
            const MergeRule& rule, bool is_last) {
          EXPECT_EQ(left.begin + left.bytes, right.begin);
          EXPECT_EQ(rule.rank, 7u);
          EXPECT_EQ(is_last, right.begin + right.bytes == n);
          ++n_joins;
          n_last += is_last ? 1 : 0;
        });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(n_joins, n - 1);
    EXPECT_EQ(n_last, 1u);
  }
}

TEST(PairMergerTest, NothingAndOneSymbolStayAsTheyAre) {
  PairMerger merger;
  EXPECT_TRUE(MergeFast("", {{"aa", 0}}, merger).empty());
  EXPECT_EQ(MergeFast("a", {{"aa", 0}}, merger).size(), 1u);
}

}  // namespace
}  // namespace plimsoll::worker
