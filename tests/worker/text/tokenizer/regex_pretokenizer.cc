#include "tests/worker/text/tokenizer/regex_pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

// Inside a class: Unicode's White_Space, spelled out, since PCRE2's own \s adds
// U+180E, which lost that property in Unicode 6.3.
constexpr char kSpace[] =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"
    "\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
// Endings of words are ASCII in either case, spelled out: PCRE2's (?i) would
// take U+017F for an s.
constexpr char kAnyEnding[] = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])";
constexpr char kFromSamaritan[] =
    "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+";
// Inside a class: letters with case, as DeepSeek LLM's expression has them.
constexpr char kCased[] =
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}"
    "\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}"
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}"
    "\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}"
    "\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}"
    "\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}"
    "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}"
    "\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}"
    "\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}"
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}"
    "\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}";

// `\s+(?!\S)|\s+`
std::string Spaces() {
  return absl::StrCat("[", kSpace, "]+(?![^", kSpace, "])|[", kSpace, "]+");
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`
std::string LinesAndSpaces() {
  return absl::StrCat("[", kSpace, "]*[\\r\\n]+|", Spaces());
}

std::string Gpt2() {
  return absl::StrCat("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^",
                      kSpace, "\\p{L}\\p{N}]+|", Spaces());
}

// Llama 3's expression and those that differ in `\p{N}{1,3}` and `[\r\n]*`.
struct Llama3Parts {
  absl::string_view digits;
  absl::string_view after_signs = "[\\r\\n]*";
  absl::string_view marks = "";
};

std::string Llama3(const Llama3Parts& parts) {
  const auto& [digits, after_signs, marks] = parts;
  return absl::StrCat("[^\\r\\n\\p{L}\\p{N}]?[\\p{L}", marks, "]+|\\p{N}",
                      digits, "| ?[^", kSpace, "\\p{L}", marks, "\\p{N}]+",
                      after_signs, "|", LinesAndSpaces());
}

std::string Llama3WithEndings(const Llama3Parts& parts) {
  return absl::StrCat(kAnyEnding, "|", Llama3(parts));
}

// GPT-4o's expression and those that differ in some parts.
struct Gpt4oParts {
  absl::string_view digits;
  absl::string_view after_signs;
  absl::string_view ending;
  absl::string_view none_of = "";  // no part of a word
};

std::string Gpt4o(const Gpt4oParts& parts) {
  const auto& [digits, after_signs, ending, none_of] = parts;
  const std::string lead = "[^\\r\\n\\p{L}\\p{N}]?";
  const std::string upper =
      absl::StrCat("(?:", none_of, "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])");
  const std::string lower =
      absl::StrCat("(?:", none_of, "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])");
  return absl::StrCat(lead, upper, "*", lower, "+", ending, "|", lead, upper,
                      "+", lower, "*", ending, "|\\p{N}", digits, "| ?[^",
                      kSpace, "\\p{L}\\p{N}]+", after_signs, "|",
                      LinesAndSpaces());
}

std::vector<std::string> DeepSeek3() {
  return {"\\p{N}{1,3}",
          "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
          absl::StrCat(
              "[\\x{21}-\\x{2f}\\x{3a}-\\x{40}\\x{5b}-\\x{60}\\x{7b}-\\x{7e}]"
              "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
              "?[\\p{P}\\p{S}]+[\\r\\n]*|",
              LinesAndSpaces())};
}

// `\s?` and a run of `set`.
std::string SpaceAnd(absl::string_view set) {
  return absl::StrCat("[", kSpace, "]?[", set, "]+");
}

std::string Bloom() {
  return absl::StrCat(
      " ?[^(|.,!?)\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}"
      "\\x{6d4}\\x{60c}",
      kSpace, "]+");
}

std::vector<std::string> ExpressionsOf(absl::string_view name) {
  const std::string any_ending = absl::StrCat("(?:", kAnyEnding, ")?");
  const std::map<absl::string_view, std::vector<std::string>> all = {
      {"gpt-2", {Gpt2()}},
      {"smollm", {"\\p{N}", Gpt2()}},
      {"falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", Gpt2(), "[0-9][0-9][0-9]"}},
      {"llama-bpe", {Llama3WithEndings({.digits = "{1,3}"})}},
      {"qwen2", {Llama3WithEndings({.digits = ""})}},
      {"qwen35", {Llama3WithEndings({.digits = "", .marks = "\\p{M}"})}},
      {"seed-coder", {Llama3WithEndings({.digits = "", .after_signs = ""})}},
      {"ufakzeka", {Llama3({.digits = ""})}},
      {"laguna", {"[^\\n]+|[\\n]+", Llama3WithEndings({.digits = ""})}},
      {"minicpm5", {"\\p{N}{1,3}", Llama3WithEndings({.digits = "+"})}},
      {"gpt-4o",
       {Gpt4o({.digits = "{1,3}",
               .after_signs = "[\\r\\n/]*",
               .ending = any_ending})}},
      {"tekken",
       {Gpt4o({.digits = "", .after_signs = "[\\r\\n/]*", .ending = ""})}},
      {"kimi-k2",
       {absl::StrCat("\\p{sc:Han}+|", Gpt4o({.digits = "{1,3}",
                                             .after_signs = "[\\r\\n]*",
                                             .ending = any_ending,
                                             .none_of = "(?!\\p{sc:Han})"}))}},
      {"bloom", {Bloom()}},
      {"viking", {Bloom(), "\\p{N}"}},
      {"deepseek-v3", DeepSeek3()},
      {"deepseek-coder",
       {"[\\r\\n]", SpaceAnd("\\p{L}"), SpaceAnd("\\p{P}"), kFromSamaritan,
        "\\p{N}"}},
      {"deepseek-llm",
       {"[\\r\\n]", SpaceAnd(kCased),
        SpaceAnd("\\x{21}-\\x{2f}\\x{3a}-\\x{7e}\\x{ff01}-\\x{ff0f}\\x{ff1a}-"
                 "\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}"),
        absl::StrCat("[", kSpace, "]+$"), kFromSamaritan, "\\p{N}+"}},
  };
  return all.at(name);
}

struct OracleCodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct OracleMatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

using OracleCode = std::unique_ptr<pcre2_code, OracleCodeDeleter>;

OracleCode CompileOracle(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  OracleCode code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &offset, nullptr));
  EXPECT_NE(code, nullptr) << error;
  return code;
}

// Splits well-formed `text` by the expressions from number `pass` on: each
// match and each gap between matches goes to the next one.
void SplitPart(absl::string_view text, const std::vector<OracleCode>& codes,
               size_t pass, std::vector<std::string>& pieces) {
  if (text.empty()) return;
  if (pass == codes.size()) {
    pieces.emplace_back(text);
    return;
  }
  const std::unique_ptr<pcre2_match_data, OracleMatchDeleter> match(
      pcre2_match_data_create(1, nullptr));
  size_t gap = 0;
  while (gap < text.size()) {
    const int count = pcre2_match(
        codes[pass].get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
        text.size(), gap, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) break;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    ASSERT_TRUE(count >= 0 && ends[1] > ends[0]) << count;
    SplitPart(text.substr(gap, ends[0] - gap), codes, pass + 1, pieces);
    SplitPart(text.substr(ends[0], ends[1] - ends[0]), codes, pass + 1, pieces);
    gap = ends[1];
  }
  SplitPart(text.substr(gap), codes, pass + 1, pieces);
}

// The longest front of `text` whose code points are all well-formed, or all
// not.
absl::string_view Front(absl::string_view text, bool well_formed) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Front front = ReadUtf8Front(text.substr(end));
    if ((front.kind == Utf8Kind::kWhole) != well_formed) break;
    end += static_cast<size_t>(front.bytes);
  }
  return text.substr(0, end);
}

}  // namespace

std::vector<std::string> SplitByRegex(absl::string_view name,
                                      absl::string_view text) {
  return SplitByExpressions(ExpressionsOf(name), text);
}

std::vector<std::string> SplitByExpressions(
    const std::vector<std::string>& expressions, absl::string_view text) {
  std::vector<OracleCode> codes;
  for (const std::string& expression : expressions) {
    codes.push_back(CompileOracle(expression));
  }
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const absl::string_view good = Front(text, /*well_formed=*/true);
    SplitPart(good, codes, 0, pieces);
    text.remove_prefix(good.size());
    const absl::string_view bad = Front(text, /*well_formed=*/false);
    if (!bad.empty()) pieces.emplace_back(bad);
    text.remove_prefix(bad.size());
  }
  return pieces;
}

}  // namespace plimsoll::worker
