#include "tests/worker/text/tokenizer/regex_pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>

#include "gtest/gtest.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

// Unicode's White_Space, spelled out: PCRE2's own \s adds U+180E, which lost
// that property in Unicode 6.3. For use inside a class.
#define PLIMSOLL_SPACE                                    \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-" \
  "\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
constexpr const char* kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" PLIMSOLL_SPACE
    "\\p{L}\\p{N}]+|[" PLIMSOLL_SPACE "]+(?![^" PLIMSOLL_SPACE
    "])|[" PLIMSOLL_SPACE "]+";
constexpr const char* kEachDigit = "\\p{N}";

// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, with \p{N}{1,N} of
// one or three digits. Contractions are ASCII in either case, spelled out:
// PCRE2's (?i) would take U+017F for an s.
#define PLIMSOLL_LLAMA_BPE(digits)                                          \
  "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\\r\\n\\p{L}\\p{N}]?"       \
  "\\p{L}+|\\p{N}" digits "| ?[^" PLIMSOLL_SPACE                            \
  "\\p{L}\\p{N}]+[\\r\\n]*|[" PLIMSOLL_SPACE "]*[\\r\\n]+|[" PLIMSOLL_SPACE \
  "]+(?![^" PLIMSOLL_SPACE "])|[" PLIMSOLL_SPACE "]+"
constexpr const char* kLlamaBpe = PLIMSOLL_LLAMA_BPE("{1,3}");
constexpr const char* kQwen2 = PLIMSOLL_LLAMA_BPE("");

struct OracleCodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct OracleMatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

using OracleCode = std::unique_ptr<pcre2_code, OracleCodeDeleter>;

OracleCode CompileOracle(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  OracleCode code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern),
                                PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                &error, &offset, nullptr));
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
  std::vector<OracleCode> codes;
  if (name == "smollm") codes.push_back(CompileOracle(kEachDigit));
  const char* pattern = kGpt2;
  if (name == "llama-bpe") pattern = kLlamaBpe;
  if (name == "qwen2") pattern = kQwen2;
  codes.push_back(CompileOracle(pattern));
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
