#include "worker/text/tokenizer/text_merge.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sanitized.h"
#include "tests/worker/text/tokenizer/merge_slowly.h"

namespace plimsoll::worker {
namespace {

// Rules of bytes: with `by_text` of every pair that makes a certain text, else
// of certain pairs. It counts what it is asked.
class TestRules {
 public:
  using Pair = std::pair<std::string, std::string>;

  explicit TestRules(bool by_text) : by_text_(by_text) {}

  void Set(const std::string& left, const std::string& right, uint32_t rank) {
    ranks_[by_text_ ? Pair(left + right, "") : Pair(left, right)] = rank;
  }
  uint32_t RankOf(const std::string& left, const std::string& right) const {
    const auto found =
        ranks_.find(by_text_ ? Pair(left + right, "") : Pair(left, right));
    return found == ranks_.end() ? kNoRank : found->second;
  }

  MergeSymbol First(absl::string_view, size_t begin) {
    ++n_first_;
    return {static_cast<uint32_t>(begin), 1, 0};
  }
  std::optional<MergeRule> Find(absl::string_view text, const MergeSymbol& left,
                                const MergeSymbol& right) {
    const uint32_t rank =
        RankOf(std::string(text.substr(left.begin, left.bytes)),
               std::string(text.substr(right.begin, right.bytes)));
    if (rank == kNoRank) return std::nullopt;
    return MergeRule{rank, 0};
  }
  void ListAcross(absl::string_view text, const MergeSymbol& symbol,
                  std::vector<AcrossRule>& out) {
    out.clear();
    const std::string left(text.substr(symbol.begin, symbol.bytes));
    const absl::string_view rest = text.substr(symbol.begin + symbol.bytes);
    for (size_t n = 1; n <= rest.size() && n <= kMaxBytes; ++n) {
      const uint32_t rank = RankOf(left, std::string(rest.substr(0, n)));
      if (rank != kNoRank) out.push_back({rank, n});
    }
  }

  // Symbols that were made, which is what all work is in proportion to.
  size_t n_first() const { return n_first_; }

  static constexpr size_t kMaxBytes = 12;  // bytes that a rule makes

 private:
  bool by_text_;
  std::map<Pair, uint32_t> ranks_;
  size_t n_first_ = 0;
};

std::vector<std::string> Merge(const std::string& text, TestRules& rules) {
  TextMerger merger;
  StopCounter never(NeverStop);
  std::vector<std::string> parts;
  const absl::Status status =
      merger.Run(text, rules, never, [&](const MergeSymbol& symbol) {
        parts.push_back(text.substr(symbol.begin, symbol.bytes));
      });
  EXPECT_TRUE(status.ok()) << status;
  return parts;
}

void ExpectAsDefined(const std::string& text, TestRules& rules) {
  const auto rank_of = [&](const std::string& left, const std::string& right) {
    return rules.RankOf(left, right);
  };
  ASSERT_EQ(Merge(text, rules), MergeSlowly(BytesOf(text), rank_of)) << text;
}

// Rules of random texts, whose ranks follow no order, with many ties.
TestRules AnyRules(std::mt19937& random, bool by_text, size_t n_letters) {
  TestRules rules(by_text);
  const uint32_t n_ranks = random() % 2 == 0 ? 4 : 1000;
  for (size_t n = 2 + random() % 30; n > 0; --n) {
    const std::string made = RandomWord(random, 2 + random() % 6, n_letters);
    const size_t at = 1 + random() % (made.size() - 1);
    rules.Set(made.substr(0, at), made.substr(at),
              static_cast<uint32_t>(random() % n_ranks));
  }
  return rules;
}

// Rules as training makes them: each joins two that there are, and comes after
// those that make them.
TestRules TrainedRules(std::mt19937& random, bool by_text, size_t n_letters) {
  TestRules rules(by_text);
  std::vector<std::string> made;
  for (size_t i = 0; i < n_letters; ++i) {
    made.emplace_back(1, static_cast<char>('a' + i));
  }
  for (uint32_t rank = 0; rank < 40; ++rank) {
    const std::string left = made[random() % made.size()];
    const std::string right = made[random() % made.size()];
    if (left.size() + right.size() > TestRules::kMaxBytes) continue;
    if (rules.RankOf(left, right) != kNoRank) continue;
    rules.Set(left, right, rank);
    made.push_back(left + right);
  }
  return rules;
}

TEST(TextMergerTest, WindowsMergeAsTheWholeDoes) {
  std::mt19937 random(5);
  constexpr size_t kWindow = TextMerger::kWindow;
  for (int round = 0; round < (testing::kIsSanitized ? 60 : 600); ++round) {
    const size_t n_letters = 1 + random() % 4;
    const bool by_text = round % 2 == 0;
    TestRules rules = round % 4 < 2 ? AnyRules(random, by_text, n_letters)
                                    : TrainedRules(random, by_text, n_letters);
    const size_t sizes[] = {kWindow - 1, kWindow, kWindow + 1, 2 * kWindow + 1,
                            1 + random() % (4 * kWindow)};
    const size_t n = sizes[random() % std::size(sizes)];
    std::string text = RandomWord(random, n, n_letters);
    if (random() % 2 == 0) {  // repeats one text
      const std::string unit = text.substr(0, 1 + random() % 7);
      for (size_t i = 0; i < n; ++i) text[i] = unit[i % unit.size()];
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAsDefined(text, rules));
  }
}

TEST(TextMergerTest, NothingGivesNothing) {
  TestRules rules(/*by_text=*/true);
  EXPECT_TRUE(Merge("", rules).empty());
}

// Each byte of a row joins the next one unless that joined the one after it: it
// is the end of the row that decides, farther away than ends are looked at.
TEST(TextMergerTest, AWindowGrowsUntilAnEndIsCertain) {
  constexpr size_t kRow = 200;
  static_assert(TextMerger::kWindow % kRow > 2 * TextMerger::kMaxEnds);
  TestRules rules(/*by_text=*/false);
  std::string row;
  for (size_t i = 0; i < kRow; ++i) row += static_cast<char>(i);
  for (size_t i = 0; i + 1 < kRow; ++i) {
    rules.Set(row.substr(i, 1), row.substr(i + 1, 1),
              static_cast<uint32_t>(kRow - i));
  }
  std::string text;
  while (text.size() < 8 * TextMerger::kWindow) text += row;
  for (const size_t more : {0u, 1u, 2u}) {
    const size_t n = 4 * TextMerger::kWindow - 1 + more;
    const size_t before = rules.n_first();
    ASSERT_NO_FATAL_FAILURE(ExpectAsDefined(text.substr(0, n), rules));
    EXPECT_GE(rules.n_first() - before, n + TextMerger::kWindow);
  }
}

TEST(TextMergerTest, WorkIsInProportionToTheText) {
  std::mt19937 random(9);
  constexpr size_t kShort = 8 * TextMerger::kWindow;
  for (int round = 0; round < (testing::kIsSanitized ? 6 : 40); ++round) {
    TestRules rules = TrainedRules(random, round % 2 == 0, 3);
    const auto work = [&](size_t n) {
      const size_t before = rules.n_first();
      Merge(RandomWord(random, n, 3), rules);
      return rules.n_first() - before;
    };
    const size_t of_short = work(kShort);
    const size_t of_long = work(8 * kShort);
    EXPECT_LE(of_long, 10 * of_short) << round;
    EXPECT_LE(of_short, 8 * kShort) << round;
  }
}

TEST(TextMergerTest, StopsWhenItIsTold) {
  TestRules rules(/*by_text=*/true);
  int n_asked = 0;
  const auto check = [&]() -> absl::Status {
    ++n_asked;
    return absl::CancelledError("enough");
  };
  StopCounter stop(check);
  TextMerger merger;
  size_t n_emitted = 0;
  const std::string text(8 * StopCounter::kUnits, 'a');
  const absl::Status status =
      merger.Run(text, rules, stop, [&](const MergeSymbol&) { ++n_emitted; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(n_asked, 1);
  EXPECT_LT(n_emitted, text.size() / 4);
}

}  // namespace
}  // namespace plimsoll::worker
