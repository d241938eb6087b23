// A regular expression that was accepted never ends its stream as too
// ambiguous, whatever is said.
#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/worker/text/grammar/grammar_match.h"
#include "worker/text/grammar/grammar_spread.h"
#include "worker/text/grammar/regex_grammar.h"

namespace plimsoll::worker {
namespace {

// Tries all that the classes of bytes can spell after here, some bytes deep, as
// the mask of a vocabulary does.
void TryTokens(GrammarState& state, const Grammar& grammar,
               GrammarState::State from, int depth) {
  for (const uint8_t byte : grammar.class_bytes) {
    const GrammarState::State after = state.Next(from, byte);
    if (after != GrammarState::kDead && depth > 1) {
      TryTokens(state, grammar, after, depth - 1);
    }
  }
}

// Says `n_bytes` at random, and what could follow at each of them.
std::string SayAtRandom(const std::shared_ptr<const Grammar>& grammar,
                        std::mt19937& random, int n_bytes, int depth) {
  GrammarState state(grammar);
  std::string said;
  for (int i = 0; i < n_bytes; ++i) {
    state.BeginStep();
    TryTokens(state, *grammar, state.current(), depth);
    std::string may_follow;
    for (const uint8_t byte : grammar->class_bytes) {
      if (state.MayFollow(state.current(), byte)) {
        may_follow += static_cast<char>(byte);
      }
    }
    if (may_follow.empty()) {
      EXPECT_TRUE(state.Accepts(state.current())) << said;
      break;
    }
    const char byte = may_follow[random() % may_follow.size()];
    EXPECT_TRUE(state.Advance({&byte, 1}));
    said += byte;
  }
  // All that it may say was there to say.
  EXPECT_FALSE(state.was_thinned()) << said;
  return said;
}

TEST(RegexAmbiguityTest, CountsInCountsAreFewPlacesAtOnce) {
  for (const std::string pattern :
       {"(([a-z ]{1,40}[,.])|([a-z ,.]{2,80})){1,40}",
        "(([a-z ]{1,40}[,.])|([a-z ,.]{2,80})){20,40}",
        ".{0,200}foo.{0,200}bar.{0,200}", "((a{1,20}b?){1,20}c?){1,20}"}) {
    const auto grammar = CompileRegex(pattern);
    ASSERT_TRUE(grammar.ok()) << pattern << grammar.status();
    std::mt19937 random(1);
    SayAtRandom(*grammar, random, 200, 5);
  }
}

TEST(RegexAmbiguityTest, PlacesAtOnceHaveALimit) {
  // One copy of `.{n}` is at n places after n bytes.
  const auto at = [](int64_t n) {
    return CompileRegex(absl::StrCat(".*x[a-z]{", n, "}"));
  };
  // What comes before and after them are places, too.
  EXPECT_TRUE(at(kMaxPlaces - 40).ok());
  const absl::Status beyond = at(kMaxPlaces + 1).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(beyond.message().find("too ambiguous"), absl::string_view::npos);
  // Where a text decides, a count may be as large as any.
  EXPECT_TRUE(CompileRegex("[a-z]{20000}").ok());
  EXPECT_TRUE(CompileRegex("[a-z]{0,30000}").ok());
  EXPECT_TRUE(CompileRegex("(ab){3000,4000}").ok());
}

TEST(RegexAmbiguityTest, WrittenOutItHasALimit) {
  EXPECT_TRUE(CompileRegex("(x{1,200}y){1,200}").ok());
  const absl::Status beyond =
      CompileRegex("z(((a?){0,100}b?){0,100}c?){0,100}").status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(beyond.message().find("too large"), absl::string_view::npos);
}

std::string RandomExpression(std::mt19937& random, int depth) {
  const auto draw = [&](size_t n) { return random() % n; };
  constexpr const char* kAtoms[] = {"a", "b", "[ab]", "[a-c]", "c", "[^a\n]"};
  std::string pattern;
  for (size_t n = 1 + draw(3); n > 0; --n) {
    std::string part = kAtoms[draw(6)];
    if (depth > 0 && draw(2) == 0) {
      part = absl::StrCat(
          "(", RandomExpression(random, depth - 1),
          draw(2) == 0 ? absl::StrCat("|", RandomExpression(random, depth - 1))
                       : std::string(),
          ")");
    }
    const size_t min = draw(4);
    switch (draw(6)) {
      case 0:
        part += "*";
        break;
      case 1:
        part += "?";
        break;
      case 2:
        absl::StrAppend(&part, "{", min, ",", min + draw(12), "}");
        break;
      case 3:
        absl::StrAppend(&part, "{", min, ",}");
        break;
      default:
        break;
    }
    pattern += part;
  }
  return pattern;
}

// Nothing where backtracking takes too long.
std::optional<bool> MatchesWithPcre2(const std::string& pattern,
                                     const std::string& text) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::string whole = absl::StrCat("\\A(?:", pattern, ")\\z");
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(),
      PCRE2_UTF | PCRE2_NO_AUTO_POSSESS, &error, &offset, nullptr);
  EXPECT_NE(code, nullptr) << whole;
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), 0, 0, match, nullptr);
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  if (count == PCRE2_ERROR_MATCHLIMIT) return std::nullopt;
  EXPECT_TRUE(count >= 0 || count == PCRE2_ERROR_NOMATCH) << whole << count;
  return count >= 0;
}

TEST(RegexAmbiguityTest, RandomPatternsMeanWhatPcre2SaysAndNeverDie) {
  std::mt19937 random(5);
  int n_matches = 0;
  for (int round = 0; round < 80; ++round) {
    const std::string pattern = RandomExpression(random, 2);
    const auto grammar = CompileRegex(pattern);
    if (!grammar.ok()) continue;  // refused at once is allowed
    std::string said = SayAtRandom(*grammar, random, 12, 3);
    // Bytes of other characters stand for classes; keep to whole ones.
    std::replace_if(
        said.begin(), said.end(), [](char c) { return c < ' ' || c > '~'; },
        'd');
    for (int change = 0; change < 3; ++change) {
      const bool matches = Matches(*grammar, said);
      n_matches += matches ? 1 : 0;
      ASSERT_EQ(matches, MatchesWithPcre2(pattern, said).value_or(matches))
          << pattern << " on " << said;
      if (!said.empty()) said[random() % said.size()] = "abcd"[random() % 4];
    }
  }
  EXPECT_GT(n_matches, 10);
}

}  // namespace
}  // namespace plimsoll::worker
