#include "worker/text/tokenizer/char_classes.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// The characters of some classes, as PCRE2 expressions.
struct CharSet {
  const char* expression;
  uint8_t classes;
};

// White space is spelled out: PCRE2's own \s adds U+180E, which lost that
// property in Unicode 6.3.
constexpr CharSet kLetters = {"\\p{L}+", CharClasses::kLetter};
constexpr CharSet kNumbers = {"\\p{N}+", CharClasses::kNumber};
constexpr CharSet kSpaces = {"[\\p{Z}\\x{9}-\\x{d}\\x{85}]+",
                             CharClasses::kSpace};
constexpr CharSet kSigns = {"[^\\p{L}\\p{N}\\p{Z}\\x{9}-\\x{d}\\x{85}]+",
                            CharClasses::kSign};
constexpr CharSet kCutNumbers = {"\\p{N}+", CharClasses::kCutSome};
constexpr CharSet kLettersAndMarks = {"[\\p{L}\\p{M}]+", CharClasses::kLetter};

constexpr CharSet kLettersAlphabet[] = {kLetters, kNumbers, kSpaces, kSigns};
constexpr CharSet kLettersAndMarksAlphabet[] = {
    kLettersAndMarks,
    kNumbers,
    kSpaces,
    {"[^\\p{L}\\p{M}\\p{N}\\p{Z}\\x{9}-\\x{d}\\x{85}]+", CharClasses::kSign}};
// Letters without case and marks are upper and lower case. Marks are signs,
// too.
constexpr CharSet kCasesAlphabet[] = {
    {"[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+", CharClasses::kUpper},
    {"[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+", CharClasses::kLower},
    kNumbers,
    kSpaces,
    kSigns};
// Han characters are no letters.
constexpr CharSet kCasesAndHanAlphabet[] = {
    {"(?!\\p{sc:Han})[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
     CharClasses::kUpper},
    {"(?!\\p{sc:Han})[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]", CharClasses::kLower},
    {"\\p{sc:Han}+", CharClasses::kEastAsian},
    kNumbers,
    kSpaces,
    kSigns};
constexpr CharSet kCutNumbersAlphabet[] = {kLetters, kCutNumbers, kSpaces,
                                           kSigns};
constexpr CharSet kCutLinesAlphabet[] = {
    {"\\n+", CharClasses::kCutRun}, kLetters, kNumbers, kSpaces, kSigns};
constexpr CharSet kCutPunctuationAlphabet[] = {
    {"[\\p{P}$+<=>^~|`]+", CharClasses::kCutRun},
    kLetters,
    kNumbers,
    kSpaces,
    kSigns};
// Chinese and Japanese have classes of their own: letters are kLower, signs are
// kNumber. What is neither punctuation nor a symbol is no sign.
constexpr CharSet kDeepSeek3Alphabet[] = {
    {"[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+", CharClasses::kEastAsian},
    {"(?=[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}])[\\p{L}\\p{M}]",
     CharClasses::kLower},
    {"(?=[\\x{3040}-\\x{30ff}])[\\p{P}\\p{S}]", CharClasses::kNumber},
    kCutNumbers,
    {"(?![\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}])[\\p{L}\\p{M}]",
     CharClasses::kUpper},
    {"(?![\\x{3040}-\\x{30ff}])[\\p{P}\\p{S}]", CharClasses::kSign},
    kSpaces};
// Two alphabets call this East Asian; it begins at the Samaritan script.
constexpr CharSet kFromSamaritan = {"[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+",
                                    CharClasses::kEastAsian};
constexpr CharSet kCutLineEnds = {"[\\r\\n]+", CharClasses::kCutSome};
constexpr CharSet kDeepSeekCoderAlphabet[] = {
    kCutLineEnds, kFromSamaritan, kLetters, {"\\p{P}+", CharClasses::kSign},
    kNumbers,     kSpaces};
// Letters are those with case, as the expression spells them out; ASCII's are
// signs, too.
constexpr CharSet kDeepSeekLlmAlphabet[] = {
    kCutLineEnds,
    kFromSamaritan,
    {"["
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
     "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
     "]+",
     CharClasses::kLetter},
    {"[\\x{21}-\\x{2f}\\x{3a}-\\x{7e}\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}"
     "\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
     CharClasses::kSign},
    kNumbers,
    kSpaces};

// Letters are all but white space and some punctuation; only U+0020 leads them.
constexpr CharSet kBloomLetters = {
    "[^(|.,!?)\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c}\\p{"
    "Z}"
    "\\x{9}-\\x{d}\\x{85}]+",
    CharClasses::kLetter};
constexpr CharSet kBloomSpaces = {" +", CharClasses::kSpace};
constexpr CharSet kBloomAlphabet[] = {kBloomLetters, kBloomSpaces};
constexpr CharSet kVikingAlphabet[] = {kBloomLetters, kBloomSpaces, kNumbers};

std::span<const CharSet> SetsOf(Alphabet alphabet) {
  switch (alphabet) {
    case Alphabet::kLetters:
      return kLettersAlphabet;
    case Alphabet::kLettersAndMarks:
      return kLettersAndMarksAlphabet;
    case Alphabet::kCases:
      return kCasesAlphabet;
    case Alphabet::kCasesAndHan:
      return kCasesAndHanAlphabet;
    case Alphabet::kCutNumbers:
      return kCutNumbersAlphabet;
    case Alphabet::kCutLines:
      return kCutLinesAlphabet;
    case Alphabet::kCutPunctuation:
      return kCutPunctuationAlphabet;
    case Alphabet::kDeepSeek3:
      return kDeepSeek3Alphabet;
    case Alphabet::kDeepSeekCoder:
      return kDeepSeekCoderAlphabet;
    case Alphabet::kDeepSeekLlm:
      return kDeepSeekLlmAlphabet;
    case Alphabet::kBloom:
      return kBloomAlphabet;
    case Alphabet::kViking:
      return kVikingAlphabet;
  }
  return {};
}

constexpr CodePointRange kSurrogateRange = {0xD800, 0xDFFF};

bool IsSurrogate(uint32_t code_point) {
  return code_point >= kSurrogateRange.first &&
         code_point <= kSurrogateRange.last;
}

// UTF-8 of `n` code points from `first` on, without surrogates.
std::string TextOf(uint32_t first, uint32_t n) {
  std::string text;
  for (uint32_t c = first; c < first + n; ++c) {
    if (!IsSurrogate(c)) AppendUtf8(c, text);
  }
  return text;
}

}  // namespace

// Finds the code points of a CharSet.
class CharClasses::Set {
 public:
  absl::Status Init(absl::string_view expression, uint8_t classes) {
    classes_ = classes;
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                              expression.size(), PCRE2_UTF, &error, &offset,
                              nullptr));
    match_.reset(pcre2_match_data_create(1, nullptr));
    if (code_ == nullptr || match_ == nullptr) {
      return absl::InternalError(
          absl::StrCat("PCRE2 refuses ", expression, ": error ", error));
    }
    // If PCRE2 has no compiler for this machine, its interpreter does the same.
    (void)pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    return absl::OkStatus();
  }

  // Adds the classes of the set to those of its code points in `text`; `block`
  // begins with those of `first`. A text of one block is far from every limit
  // of PCRE2: there is a match, or there is none.
  void Mark(absl::string_view text, uint32_t first, Block& block) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t begin = 0;
    while (begin < text.size() &&
           pcre2_match(code_.get(), subject, text.size(), begin,
                       PCRE2_NO_UTF_CHECK, match_.get(), nullptr) > 0) {
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match_.get());
      absl::string_view run = text.substr(ends[0], ends[1] - ends[0]);
      while (!run.empty()) {
        block[TakeCodePoint(run).value_or(first) - first] |= classes_;
      }
      begin = ends[1];
    }
  }

 private:
  struct Deleter {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const {
      pcre2_match_data_free(data);
    }
  };

  uint8_t classes_ = 0;
  std::unique_ptr<pcre2_code, Deleter> code_;
  std::unique_ptr<pcre2_match_data, Deleter> match_;
};

CharClasses::CharClasses() = default;

CharClasses::~CharClasses() = default;

absl::Status CharClasses::Init(Alphabet alphabet) {
  absl::MutexLock lock(&mu_);
  const std::span<const CharSet> sets = SetsOf(alphabet);
  sets_.resize(sets.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    RETURN_IF_ERROR(sets_[i].Init(sets[i].expression, sets[i].classes));
  }
  return absl::OkStatus();
}

const uint8_t* CharClasses::Make(uint32_t n) const {
  absl::MutexLock lock(&mu_);
  const uint8_t* known = blocks_[n].load(std::memory_order_relaxed);
  if (known != nullptr) return known;
  const uint32_t first = n * kBlock;
  const std::string text = TextOf(first, kBlock);
  Block block = {};
  for (const Set& set : sets_) set.Mark(text, first, block);
  for (uint8_t& classes : block) {
    if ((classes & kCut) != 0) classes &= kCut;
  }
  const Block& made = *made_.insert(block).first;
  blocks_[n].store(made.data(), std::memory_order_release);
  return made.data();
}

absl::StatusOr<const CharClasses*> CharClasses::Get(Alphabet alphabet) {
  struct Made {
    absl::once_flag once;
    absl::Status status;
    CharClasses classes;
  };
  // Never destroyed: other threads may use them until the process ends.
  static auto* const all = new std::array<Made, kAlphabets>;
  Made& made = (*all)[static_cast<size_t>(alphabet)];
  absl::call_once(made.once,
                  [&] { made.status = made.classes.Init(alphabet); });
  RETURN_IF_ERROR(made.status);
  return &made.classes;
}

}  // namespace plimsoll::worker
