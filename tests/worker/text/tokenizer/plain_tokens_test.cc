#include "worker/text/tokenizer/plain_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {
namespace {

constexpr size_t kMax = PlainTokens::kMaxChars;

// The list of `texts`, whose ids are their places.
TokenList ListOf(const std::vector<std::string>& texts) {
  std::vector<size_t> order;
  for (size_t i = 0; i < texts.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return texts[a] < texts[b]; });
  TokenList list;
  std::string before;
  for (const size_t i : order) {
    const std::string& now = texts[i];
    const auto differ =
        std::mismatch(now.begin(), now.end(), before.begin(), before.end());
    const auto n_shared = static_cast<size_t>(differ.first - now.begin());
    list.Add(static_cast<int32_t>(i), n_shared,
             absl::string_view(now).substr(n_shared));
    before = now;
  }
  list.Finish();
  return list;
}

std::vector<int32_t> Ids(std::span<const uint64_t> bits) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < 64 * bits.size(); ++i) {
    if ((bits[i / 64] >> (i % 64) & 1) != 0) {
      ids.push_back(static_cast<int32_t>(i));
    }
  }
  return ids;
}

TEST(PlainTokensTest, MasksGoByTheNumberOfCharacters) {
  const TokenList all =
      ListOf({"a", "ab", "\xC3\xA9", "\xE4\xB8\xAD\xE6\x96\x87\xF0\x9F\x98\x80",
              std::string(kMax, 'x'), std::string(kMax + 1, 'x')});
  const PlainTokens plain(PlainText::kPlain, all, 70);
  using Expected = std::vector<int32_t>;
  EXPECT_EQ(plain.UpTo(0).size(), 2u);
  EXPECT_EQ(Ids(plain.UpTo(0)), Expected());
  EXPECT_EQ(Ids(plain.UpTo(1)), Expected({0, 2}));
  EXPECT_EQ(Ids(plain.UpTo(2)), Expected({0, 1, 2}));
  EXPECT_EQ(Ids(plain.UpTo(kMax - 1)), Expected({0, 1, 2, 3}));
  EXPECT_EQ(Ids(plain.UpTo(kMax)), Expected({0, 1, 2, 3, 4}));
  EXPECT_TRUE(plain.Has(4));
  EXPECT_FALSE(plain.Has(5)) << "one character past the limit";
  EXPECT_EQ(plain.CountByFirst('a'), 2);
  EXPECT_EQ(plain.CountByFirst('x'), 1);
  EXPECT_EQ(plain.CountByFirst(0xE4), 1);
  EXPECT_EQ(plain.CountByFirst(0xA9), 0);
}

// The texts of a list's entries.
std::vector<std::string> TextsOf(const TokenList& list) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < list.size(); ++i) {
    const TokenList::Entry entry = list.At(i);
    const std::string shared =
        texts.empty() ? "" : texts.back().substr(0, entry.n_shared);
    texts.push_back(absl::StrCat(shared, entry.bytes));
  }
  return texts;
}

// Every token is of the kind, among the others or in the rest.
void ExpectAllCovered(PlainText::Kind kind,
                      const std::vector<std::string>& texts,
                      const std::vector<std::string>& of_kind,
                      const std::vector<std::string>& others) {
  const TokenList all = ListOf(texts);
  const PlainTokens plain(kind, all, static_cast<int64_t>(texts.size()));
  EXPECT_EQ(TextsOf(plain.others()), others);
  std::vector<std::string> found;
  std::vector<bool> is_rest(texts.size(), false);
  for (const PlainTokens::Range& range : plain.rest()) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      is_rest[static_cast<size_t>(i)] = true;
    }
  }
  int64_t n_before = 0;
  for (int64_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(plain.OtherFrom(i), n_before) << i;
    if (plain.Has(all.Id(i))) {
      found.push_back(texts[static_cast<size_t>(all.Id(i))]);
      EXPECT_FALSE(is_rest[static_cast<size_t>(i)]);
    } else if (!is_rest[static_cast<size_t>(i)]) {
      EXPECT_EQ(plain.others().Id(n_before), all.Id(i));
      ++n_before;
    }
  }
  EXPECT_EQ(plain.OtherFrom(all.size()), n_before);
  EXPECT_EQ(plain.others().size(), n_before);
  EXPECT_EQ(found, of_kind);
}

// Quotes, backslashes, control characters, the begin of a mark, and parts of
// characters are not plain.
TEST(PlainTokensTest, OtherTokensAreFoundByTheirPlace) {
  const std::vector<std::string> texts = {
      "a",    "ab",  "1 b",           "z",    "\xC3\xA9",    "a\"",
      "\"",   "\\",  "a\n",           "\x1F", "a<b",         "\xC3",
      "\xA9", "a\"", "a\xC3\xA9\xE4", " a",   "\xED\xA0\x80"};
  ExpectAllCovered(
      PlainText::kPlain, texts, {" a", "1 b", "a", "ab", "z", "\xC3\xA9"},
      {"a\n", "a\"", "a\"", "a<b", "a\xC3\xA9\xE4", "\xC3", "\xED\xA0\x80"});
  ExpectAllCovered(PlainText::kWord, texts, {"a", "ab", "z"},
                   {"1 b", "a\n", "a\"", "a\"", "a<b", "a\xC3\xA9\xE4"});
}

}  // namespace
}  // namespace plimsoll::worker
