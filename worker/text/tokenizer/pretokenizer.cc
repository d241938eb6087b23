// Hand-written pre-tokenizers. Tests compare them with their regular
// expressions in PCRE2.
#include "worker/text/tokenizer/pretokenizer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

using Classes = CharClasses;

// The endings of words.
constexpr absl::string_view kEndings[] = {"'s", "'t",  "'re", "'ve",
                                          "'m", "'ll", "'d"};

// The bytes of the ending that `text` begins with, or 0. Case means ASCII's
// case: U+017F is no s.
size_t EndingBytes(absl::string_view text, bool any_case) {
  if (text.empty() || text[0] != '\'') return 0;
  for (const absl::string_view one : kEndings) {
    if (any_case ? absl::StartsWithIgnoreCase(text, one)
                 : absl::StartsWith(text, one)) {
      return one.size();
    }
  }
  return 0;
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

// The code point of `text`, whose well-formed front has `bytes` bytes.
uint32_t CodePointOf(absl::string_view text, int bytes) {
  const auto byte = [text](size_t i) {
    return uint32_t{static_cast<unsigned char>(text[i])} & 0x3F;
  };
  switch (bytes) {
    case 1:
      return static_cast<unsigned char>(text[0]);
    case 2:
      return (byte(0) & 0x1F) << 6 | byte(1);
    case 3:
      return (byte(0) & 0x0F) << 12 | byte(1) << 6 | byte(2);
    default:
      return (byte(0) & 0x07) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3);
  }
}

// The longest front of `text` that has no well-formed code point.
size_t IllFormedBytes(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Front front = ReadUtf8Front(text.substr(end));
    if (front.kind == Utf8Kind::kWhole) break;
    end += static_cast<size_t>(front.bytes);
  }
  return end;
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(absl::string_view name) {
  ASSIGN_OR_RETURN(const PreTokenizerFamily* family, FindPreTokenizer(name));
  ASSIGN_OR_RETURN(const CharClasses* classes,
                   CharClasses::Get(family->rule.alphabet));
  return PreTokenizer(*family, *classes);
}

PreTokenizer::Front PreTokenizer::ReadLongFront(absl::string_view text) const {
  const Utf8Front front = ReadUtf8Front(text);
  if (front.kind != Utf8Kind::kWhole) return {0, 0};
  return {classes_->Of(CodePointOf(text, front.bytes)),
          static_cast<size_t>(front.bytes)};
}

size_t PreTokenizer::SkipRun(absl::string_view text, size_t at,
                             uint8_t classes) const {
  Front front = ReadFront(text, at);
  while (front.IsAny(classes)) {
    at += front.bytes;
    front = ReadFront(text, at);
  }
  return at;
}

size_t PreTokenizer::LimitedEnd(absl::string_view text, Front first) const {
  size_t end = first.bytes;
  for (int n = rule_->max_digits; n > 1; --n) {
    const Front next = ReadFront(text, end);
    if (!next.IsAny(first.classes)) break;
    end += next.bytes;
  }
  return end;
}

// `\s*[\r\n]+` with `lines_first`, then `\s+(?!\S)|\s+`.
size_t PreTokenizer::SpacePiece(absl::string_view text,
                                bool lines_first) const {
  size_t last_begin = 0;  // begin of the run's last character
  size_t lines_end = 0;   // after the last end of a line
  size_t end = 0;
  Front front = ReadFront(text, 0);
  while (front.IsAny(Classes::kSpace)) {
    last_begin = end;
    end += front.bytes;
    if (IsLineEnd(text[last_begin])) lines_end = end;
    front = ReadFront(text, end);
  }
  if (lines_first && lines_end > 0) return lines_end;
  return IsEnd(front) || last_begin == 0 ? end : last_begin;
}

// ` ?SIGN+[...]*`
size_t PreTokenizer::SignPiece(absl::string_view text, Front first,
                               Front second) const {
  size_t end = 0;
  if (first.IsAny(Classes::kSign)) end = first.bytes;
  if (text[0] == ' ' && second.IsAny(Classes::kSign)) end = 1 + second.bytes;
  if (end == 0) return 0;
  end = SkipRun(text, end, Classes::kSign);
  while (end < text.size() &&
         rule_->after_signs.find(text[end]) != absl::string_view::npos) {
    ++end;
  }
  return end;
}

size_t PreTokenizer::FalconNumbersEnd(absl::string_view text, size_t at) const {
  size_t n_ascii = 0;
  size_t end = at;
  Front front = ReadFront(text, end);
  while (front.IsAny(Classes::kNumber)) {
    n_ascii = front.bytes == 1 ? n_ascii + 1 : 0;
    end += front.bytes;
    if (n_ascii == 3) return end > 3 ? end - 3 : end;
    front = ReadFront(text, end);
  }
  return end;
}

size_t PreTokenizer::Gpt2Piece(absl::string_view text, Front first) const {
  const size_t ending = EndingBytes(text, /*any_case=*/false);
  if (ending > 0) return ending;
  size_t begin = 0;
  if (text[0] == ' ') {
    first = ReadFront(text, 1);
    begin = 1;
  }
  if (IsEnd(first) || first.IsAny(Classes::kSpace)) {
    return SpacePiece(text, /*lines_first=*/false);
  }
  if (rule_->cuts_ascii_digits && first.IsAny(Classes::kNumber)) {
    return FalconNumbersEnd(text, begin);
  }
  return SkipRun(text, begin + first.bytes, first.classes);
}

// `[upper]*[lower]+|[upper]+[lower]*`. The first of these gives back what it
// need not have, so a run that no lower case follows ends after its last
// letter of both.
PreTokenizer::Word PreTokenizer::ReadWord(absl::string_view text,
                                          size_t at) const {
  size_t end = at;
  size_t lower_end = at;
  Front front = ReadFront(text, end);
  while (front.IsAny(Classes::kUpper)) {
    end += front.bytes;
    if (front.IsAny(Classes::kLower)) lower_end = end;
    front = ReadFront(text, end);
  }
  if (front.IsAny(Classes::kLower)) {
    return {SkipRun(text, end + front.bytes, Classes::kLower), true};
  }
  if (lower_end > at) return {lower_end, true};
  return {end, false};
}

// `[^\r\n\p{L}\p{N}]?` and a word. A mark may be both.
size_t PreTokenizer::WordEnd(absl::string_view text, Front first) const {
  const bool may_lead =
      first.IsAny(Classes::kSign | Classes::kSpace) && !IsLineEnd(text[0]);
  if (!may_lead) return ReadWord(text, 0).end;
  const Word word = ReadWord(text, first.bytes);
  if (word.has_lower) return word.end;
  if (first.IsAny(Classes::kLetter)) return first.bytes;
  return word.end > first.bytes ? word.end : 0;
}

size_t PreTokenizer::WordsPiece(absl::string_view text, Front first) const {
  if (rule_->endings == PreTokenizerRule::Endings::kCutOff) {
    const size_t ending = EndingBytes(text, /*any_case=*/true);
    if (ending > 0) return ending;
  }
  if (first.IsAny(Classes::kEastAsian)) {
    return SkipRun(text, first.bytes, Classes::kEastAsian);
  }
  const size_t word_end = WordEnd(text, first);
  if (word_end > 0) {
    if (rule_->endings != PreTokenizerRule::Endings::kJoined) return word_end;
    return word_end + EndingBytes(text.substr(word_end), /*any_case=*/true);
  }
  if (first.IsAny(Classes::kNumber)) return LimitedEnd(text, first);
  const size_t signs = SignPiece(text, first, ReadFront(text, first.bytes));
  return signs > 0 ? signs : SpacePiece(text, /*lines_first=*/true);
}

// The last expression sees Chinese and Japanese by themselves, so they have
// classes of their own for letters and signs.
size_t PreTokenizer::DeepSeek3Piece(absl::string_view text, Front first) const {
  if (absl::ascii_ispunct(static_cast<unsigned char>(text[0]))) {
    size_t end = 1;
    while (end < text.size() &&
           absl::ascii_isalpha(static_cast<unsigned char>(text[end]))) {
      ++end;
    }
    if (end > 1) return end;
  }
  const bool is_east_asian = first.IsAny(Classes::kEastAsian);
  const uint8_t letters = is_east_asian ? Classes::kLower : Classes::kUpper;
  const uint8_t signs = is_east_asian ? Classes::kNumber : Classes::kSign;
  Front second = ReadFront(text, first.bytes);
  const bool may_lead = !first.IsAny(signs) && !IsLineEnd(text[0]);
  if (first.IsAny(letters) || (may_lead && second.IsAny(letters))) {
    return SkipRun(text, first.bytes, letters);
  }
  if (is_east_asian && first.IsAny(signs)) {
    return SkipRun(text, first.bytes, signs);
  }
  const size_t sign_piece = SignPiece(text, first, second);
  if (sign_piece > 0) return sign_piece;
  if (first.IsAny(Classes::kSpace)) {
    return SpacePiece(text, /*lines_first=*/true);
  }
  // Nothing matches what is neither, unless it leads a word.
  size_t end = first.bytes;
  while (second.bytes > 0 && second.classes == first.classes) {
    const Front third = ReadFront(text, end + second.bytes);
    if (third.IsAny(letters)) break;
    end += second.bytes;
    second = third;
  }
  return end;
}

PreTokenizer::Neighbours PreTokenizer::ReadNeighbours(absl::string_view text,
                                                      size_t at) const {
  Neighbours around;
  around.last = ReadFront(text, at);
  around.end = at + around.last.bytes;
  around.next = ReadFront(text, around.end);
  around.after_end = around.end + around.next.bytes;
  around.after = ReadFront(text, around.after_end);
  around.later = ReadFront(text, around.after_end + around.after.bytes);
  return around;
}

void PreTokenizer::Advance(absl::string_view text, Neighbours& around) const {
  around.last = around.next;
  around.end = around.after_end;
  around.next = around.after;
  around.after_end += around.after.bytes;
  around.after = around.later;
  around.later = ReadFront(text, around.after_end + around.after.bytes);
}

// White space in front of letters or else of signs is the first of their run.
bool PreTokenizer::BeginsRun(const Neighbours& around) {
  const Front last = around.last;
  const Front next = around.next;
  const bool is_sign = next.IsAny(Classes::kSign);
  if (next.IsAny(Classes::kSpace)) {
    const Front after = around.after;
    if (after.IsAny(Classes::kLetter)) return true;
    const bool leads_letters =
        after.IsAny(Classes::kSpace) && around.later.IsAny(Classes::kLetter);
    if (!is_sign && after.IsAny(Classes::kSign) && !leads_letters) return true;
  }
  if (last.IsAny(Classes::kSpace)) {
    if (is_sign) return false;
    if (next.IsAny(Classes::kLetter)) return last.IsAny(Classes::kSign);
  }
  return last.IsAny(Classes::kLetter) != next.IsAny(Classes::kLetter) ||
         last.IsAny(Classes::kSign) != is_sign;
}

bool PreTokenizer::IsLastOfRun(absl::string_view text, size_t at) const {
  Neighbours around = ReadNeighbours(text, at);
  while (!IsEnd(around.next)) {
    if (BeginsRun(around)) return true;
    if (!around.next.IsAny(Classes::kSpace)) return false;
    Advance(text, around);
  }
  return true;
}

size_t PreTokenizer::RunsPiece(absl::string_view text) const {
  const bool each_digit = rule_->max_digits == 1;
  Neighbours around = ReadNeighbours(text, 0);
  while (!IsEnd(around.next) && !BeginsRun(around)) {
    const Front last = around.last;
    const Front next = around.next;
    const auto differs = static_cast<uint8_t>(last.classes ^ next.classes);
    if ((differs & (Classes::kEastAsian | Classes::kNumber)) != 0) break;
    if (each_digit && next.IsAny(Classes::kNumber)) break;
    const bool begins_spaces =
        next.IsAny(Classes::kSpace) && !last.IsAny(Classes::kSpace);
    if (rule_->cuts_last_spaces && begins_spaces &&
        IsLastOfRun(text, around.end)) {
      break;
    }
    Advance(text, around);
  }
  return around.end;
}

size_t PreTokenizer::FirstPiece(absl::string_view text) const {
  const Front first = ReadFront(text, 0);
  if (first.bytes == 0) return IllFormedBytes(text);
  if (first.IsAny(Classes::kCutSome)) return LimitedEnd(text, first);
  if (first.IsAny(Classes::kCutRun)) {
    return SkipRun(text, first.bytes, Classes::kCutRun);
  }
  switch (rule_->scanner) {
    case PreTokenizerRule::Scanner::kGpt2:
      return Gpt2Piece(text, first);
    case PreTokenizerRule::Scanner::kWords:
      return WordsPiece(text, first);
    case PreTokenizerRule::Scanner::kDeepSeek3:
      return DeepSeek3Piece(text, first);
    case PreTokenizerRule::Scanner::kRuns:
      return RunsPiece(text);
  }
  return first.bytes;
}

}  // namespace plimsoll::worker
