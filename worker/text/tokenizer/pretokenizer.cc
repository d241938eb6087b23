// Hand-written pre-tokenizers. Tests compare them with their regular
// expressions in PCRE2.
#include "worker/text/tokenizer/pretokenizer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

using Rule = PreTokenizer::Rule;

// A name of tokenizer.ggml.pre and what follows from it.
struct Family {
  absl::string_view name;
  Rule rule;
  PreTokenizer::Traits traits;
};
constexpr PreTokenizer::Traits kPlain = {false, false};
constexpr PreTokenizer::Traits kLlama3 = {true, true};
constexpr Family kFamilies[] = {
    {"gpt-2", Rule::kGpt2, kPlain},
    {"smollm", Rule::kEachDigitGpt2, kPlain},
    {"llama-bpe", Rule::kLlama3, kLlama3},
    {"qwen2", Rule::kQwen2, kPlain},
    // These are other names of the same rules.
    {"llama3", Rule::kLlama3, kLlama3},
    {"llama-v3", Rule::kLlama3, kLlama3},
    {"falcon3", Rule::kLlama3, kLlama3},
    {"dbrx", Rule::kLlama3, kPlain},
    {"smaug-bpe", Rule::kLlama3, kPlain},
    {"deepseek-r1-qwen", Rule::kQwen2, kPlain},
    {"stablelm2", Rule::kQwen2, kPlain},
    {"megrez", Rule::kQwen2, kPlain},
    {"phi-2", Rule::kGpt2, kPlain},
    {"mpt", Rule::kGpt2, kPlain},
    {"olmo", Rule::kGpt2, kPlain},
    {"jais", Rule::kGpt2, kPlain},
    {"exaone4", Rule::kGpt2, kPlain},
    {"modern-bert", Rule::kGpt2, kPlain},
    {"starcoder", Rule::kEachDigitGpt2, kPlain},
    {"refact", Rule::kEachDigitGpt2, kPlain},
    {"command-r", Rule::kEachDigitGpt2, kPlain},
    {"codeshell", Rule::kEachDigitGpt2, kPlain},
    {"exaone", Rule::kEachDigitGpt2, kPlain},
};

// The endings that are cut off from a word.
constexpr absl::string_view kContractions[] = {"'s", "'t",  "'re", "'ve",
                                               "'m", "'ll", "'d"};

// The bytes of the contraction that `text` begins with, or 0. Case means
// ASCII's case: U+017F is no s.
size_t ContractionBytes(absl::string_view text, bool any_case) {
  if (text[0] != '\'') return 0;
  for (const absl::string_view one : kContractions) {
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
  for (const Family& family : kFamilies) {
    if (family.name != name) continue;
    ASSIGN_OR_RETURN(const CharClasses* classes, CharClasses::Get());
    return PreTokenizer(*classes, family.rule, family.traits);
  }
  return absl::UnimplementedError(absl::StrCat(
      "tokenizer.ggml.pre is '", name,
      "'; the pre-tokenizers known are gpt-2, smollm, llama-bpe, qwen2 and "
      "other names of these"));
}

PreTokenizer::Front PreTokenizer::ReadFront(absl::string_view text,
                                            size_t at) const {
  if (at >= text.size()) return {Front::Kind::kEnd, 0};
  const auto lead = static_cast<unsigned char>(text[at]);
  uint32_t code_point = lead;
  size_t bytes = 1;
  if (lead >= 0x80) {
    const Utf8Front front = ReadUtf8Front(text.substr(at));
    if (front.kind != Utf8Kind::kWhole) return {Front::Kind::kEnd, 0};
    code_point = CodePointOf(text.substr(at), front.bytes);
    bytes = static_cast<size_t>(front.bytes);
  }
  switch (classes_->Of(code_point)) {
    case CharClass::kLetter:
      return {Front::Kind::kLetter, bytes};
    case CharClass::kNumber:
      // Every digit is cut out before anything else is looked at.
      return {rule_ == Rule::kEachDigitGpt2 ? Front::Kind::kEnd
                                            : Front::Kind::kNumber,
              bytes};
    case CharClass::kSpace:
      return {Front::Kind::kSpace, bytes};
    case CharClass::kOther:
      break;
  }
  return {Front::Kind::kOther, bytes};
}

size_t PreTokenizer::SkipRun(absl::string_view text, size_t at,
                             Front::Kind kind) const {
  Front front = ReadFront(text, at);
  while (front.kind == kind) {
    at += front.bytes;
    front = ReadFront(text, at);
  }
  return at;
}

// `\s*[\r\n]+` with `lines_first`, then `\s+(?!\S)|\s+`.
size_t PreTokenizer::SpacePiece(absl::string_view text,
                                bool lines_first) const {
  size_t last_begin = 0;  // begin of the run's last character
  size_t lines_end = 0;   // after the last end of a line
  size_t end = 0;
  Front front = ReadFront(text, 0);
  while (front.kind == Front::Kind::kSpace) {
    last_begin = end;
    end += front.bytes;
    if (IsLineEnd(text[last_begin])) lines_end = end;
    front = ReadFront(text, end);
  }
  if (lines_first && lines_end > 0) return lines_end;
  const bool is_cut = front.kind == Front::Kind::kEnd;
  return is_cut || last_begin == 0 ? end : last_begin;
}

// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|
// \s+(?!\S)|\s+`
size_t PreTokenizer::Gpt2Piece(absl::string_view text, Front first) const {
  const size_t contraction = ContractionBytes(text, /*any_case=*/false);
  if (contraction > 0) return contraction;
  size_t begin = 0;
  if (text[0] == ' ') {
    first = ReadFront(text, 1);
    begin = 1;
  }
  if (first.kind == Front::Kind::kSpace || first.kind == Front::Kind::kEnd) {
    return SpacePiece(text, /*lines_first=*/false);
  }
  return SkipRun(text, begin + first.bytes, first.kind);
}

// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`; kQwen2 has `\p{N}`.
size_t PreTokenizer::Llama3Piece(absl::string_view text, Front first) const {
  using Kind = Front::Kind;
  const size_t contraction = ContractionBytes(text, /*any_case=*/true);
  if (contraction > 0) return contraction;
  if (first.kind == Kind::kLetter) {
    return SkipRun(text, first.bytes, Kind::kLetter);
  }
  if (first.kind == Kind::kNumber) {
    size_t end = first.bytes;
    for (int n = rule_ == Rule::kLlama3 ? 3 : 1; n > 1; --n) {
      const Front next = ReadFront(text, end);
      if (next.kind != Kind::kNumber) break;
      end += next.bytes;
    }
    return end;
  }
  const Front second = ReadFront(text, first.bytes);
  if (second.kind == Kind::kLetter && !IsLineEnd(text[0])) {
    return SkipRun(text, first.bytes + second.bytes, Kind::kLetter);
  }
  size_t signs = 0;  // after those that the piece begins with
  if (first.kind == Kind::kOther) signs = first.bytes;
  if (text[0] == ' ' && second.kind == Kind::kOther) signs = 1 + second.bytes;
  if (signs == 0) return SpacePiece(text, /*lines_first=*/true);
  size_t end = SkipRun(text, signs, Kind::kOther);
  while (end < text.size() && IsLineEnd(text[end])) ++end;
  return end;
}

size_t PreTokenizer::FirstPiece(absl::string_view text) const {
  const Front first = ReadFront(text, 0);
  if (first.kind == Front::Kind::kEnd) {
    // A digit by itself, or no code point.
    return first.bytes > 0 ? first.bytes : IllFormedBytes(text);
  }
  return rule_ == Rule::kGpt2 || rule_ == Rule::kEachDigitGpt2
             ? Gpt2Piece(text, first)
             : Llama3Piece(text, first);
}

}  // namespace plimsoll::worker
