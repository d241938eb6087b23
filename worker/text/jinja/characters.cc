#include "worker/text/jinja/characters.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstddef>

#include "base/status_macros.h"
#include "worker/text/code_points.h"
#include "worker/text/jinja/case_tables.h"

namespace plimsoll::worker::jinja {
namespace {

uint32_t CodePointOf(absl::string_view character) {
  return TakeCodePoint(character).value_or(0);
}

bool IsAscii(absl::string_view character) {
  return static_cast<unsigned char>(character[0]) < 0x80;
}

std::string Mapped(absl::string_view character, const CaseTable& table) {
  const uint32_t c = CodePointOf(character);
  const auto text = std::lower_bound(
      table.texts.begin(), table.texts.end(), c,
      [](const CaseText& a, uint32_t b) { return a.code_point < b; });
  if (text != table.texts.end() && text->code_point == c) return text->text;
  const auto range = std::lower_bound(
      table.ranges.begin(), table.ranges.end(), c,
      [](const CaseRange& a, uint32_t b) { return a.last < b; });
  if (range == table.ranges.end() || c < range->first ||
      (c - range->first) % range->step != 0) {
    return std::string(character);
  }
  std::string out;
  AppendUtf8(static_cast<uint32_t>(static_cast<int32_t>(c) + range->delta),
             out);
  return out;
}

// A set of characters by PCRE2's Unicode tables.
class CharacterSet {
 public:
  explicit CharacterSet(const char* expression) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression),
                          PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED,
                          &error, &at, nullptr);
    PLIMSOLL_CHECK(code_ != nullptr, "our own expressions are right");
  }
  bool Has(absl::string_view character) const {
    pcre2_match_data* const found = pcre2_match_data_create(1, nullptr);
    const int n =
        pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(character.data()),
                    character.size(), 0, PCRE2_NO_UTF_CHECK, found, nullptr);
    pcre2_match_data_free(found);
    return n >= 0;
  }

 private:
  pcre2_code* code_;  // lives as long as the process
};

bool IsAsciiLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string Upper(absl::string_view character) {
  if (!IsAscii(character)) return Mapped(character, upper_case_table);
  const char c = character[0];
  return std::string(
      1, c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
}

std::string Lower(absl::string_view character) {
  if (!IsAscii(character)) return Mapped(character, lower_case_table);
  const char c = character[0];
  return std::string(
      1, c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
}

std::string Title(absl::string_view character) {
  if (IsAscii(character)) return Upper(character);
  const uint32_t c = CodePointOf(character);
  for (const CaseText& text : title_case_table.texts) {
    if (text.code_point == c) return text.text;
  }
  return Upper(character);
}

bool IsCased(absl::string_view character) {
  return Upper(character) != character || Lower(character) != character;
}

bool IsSpace(absl::string_view character) {
  return IsPythonSpace(CodePointOf(character));
}

bool IsPrintable(absl::string_view character) {
  if (IsAscii(character)) return character[0] >= 0x20 && character[0] < 0x7F;
  static const auto& hidden = *new CharacterSet("[\\p{C}\\p{Z}]");
  return !hidden.Has(character);
}

bool IsKind(absl::string_view character, CharacterKind kind) {
  if (IsAscii(character)) {
    const char c = character[0];
    const bool is_word = kind == CharacterKind::kWord;
    if (IsAsciiLetter(c)) return is_word || kind == CharacterKind::kLetter;
    if (IsAsciiDigit(c)) return kind != CharacterKind::kLetter;
    return is_word && c == '_';
  }
  static const auto& letters = *new CharacterSet("\\p{L}");
  static const auto& digits = *new CharacterSet("\\p{Nd}");
  static const auto& numbers = *new CharacterSet("\\p{N}");
  static const auto& words = *new CharacterSet("[\\p{L}\\p{N}]");
  switch (kind) {
    case CharacterKind::kLetter:
      return letters.Has(character);
    case CharacterKind::kDigit:
      return digits.Has(character);
    case CharacterKind::kNumber:
      return numbers.Has(character);
    case CharacterKind::kWord:
      return words.Has(character);
  }
  return false;
}

}  // namespace plimsoll::worker::jinja
