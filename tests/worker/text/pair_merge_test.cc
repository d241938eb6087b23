#include "worker/pair_merge.h"

#include <map>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

using Rules = std::map<std::string, uint32_t>;  // joined text -> rank

// The definition: scan all pairs, join the best one, again.
std::vector<std::string> MergeSlowly(const std::string& text,
                                     const Rules& rules) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    size_t best = parts.size();
    uint32_t best_rank = UINT32_MAX;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rule = rules.find(parts[i] + parts[i + 1]);
      if (rule != rules.end() && rule->second < best_rank) {
        best = i;
        best_rank = rule->second;
      }
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

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
    if (symbol.bytes > 0)
      parts.push_back(text.substr(symbol.begin, symbol.bytes));
  }
  return parts;
}

TEST(PairMergerTest, EqualsRepeatedScansWithTiesToTheLeft) {
  std::mt19937 random(3);
  const auto word = [&](size_t n) {
    std::string text;
    for (; n > 0; --n) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  PairMerger merger;
  for (int round = 0; round < 3000; ++round) {
    Rules rules;
    for (size_t n = random() % 12; n > 0; --n) {
      // Few ranks, so that ties are common.
      rules[word(2 + random() % 4)] = static_cast<uint32_t>(random() % 4);
    }
    // Short ones are merged in another way.
    const std::string text =
        word(random() % (round % 2 == 0 ? 24 : 4 * PairMerger::kMaxScanned));
    ASSERT_EQ(MergeFast(text, rules, merger), MergeSlowly(text, rules)) << text;
  }
}

TEST(PairMergerTest, NothingAndOneSymbolStayAsTheyAre) {
  PairMerger merger;
  EXPECT_TRUE(MergeFast("", {{"aa", 0}}, merger).empty());
  EXPECT_EQ(MergeFast("a", {{"aa", 0}}, merger).size(), 1u);
}

}  // namespace
}  // namespace plimsoll::worker
