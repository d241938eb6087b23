// Reads and writes byte sizes.
#include "services/cli/terminal/bytes.h"

#include <array>
#include <cctype>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checked_math.h"

namespace plimsoll::cli {
namespace {

struct Unit {
  absl::string_view name;
  int64_t bytes;
};

constexpr std::array<Unit, 5> kUnits = {{{"B", 1},
                                         {"KiB", int64_t{1} << 10},
                                         {"MiB", int64_t{1} << 20},
                                         {"GiB", int64_t{1} << 30},
                                         {"TiB", int64_t{1} << 40}}};

// Only this many digits of a fraction are used: more would overflow int64.
constexpr size_t kMaxFractionDigits = 6;

absl::Status NotASize(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text.substr(0, 40),
                   "' is not a size; write bytes (1073741824) or a number with "
                   "KiB, MiB, GiB or TiB (1.5GiB)"));
}

absl::Status DecimalUnit(absl::string_view text, absl::string_view number,
                         absl::string_view unit) {
  const std::string binary =
      absl::StrCat(number, absl::AsciiStrToUpper(unit.substr(0, 1)), "iB");
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text.substr(0, 40), "' could mean powers of 1000 or of 1024; write ",
      binary, " or the number of bytes"));
}

// Returns whole.fraction * unit; a fraction of a byte is dropped.
absl::StatusOr<int64_t> Scale(absl::string_view text, int64_t whole,
                              absl::string_view fraction, int64_t unit) {
  const auto bytes = CheckedMul(whole, unit);
  std::optional<int64_t> total;
  int64_t part = 0;
  int64_t scale = 1;
  for (char digit : fraction.substr(0, kMaxFractionDigits)) {
    part = part * 10 + (digit - '0');
    scale *= 10;
  }
  // part * unit < 10^6 * 2^40 < 2^60.
  if (bytes) total = CheckedAdd(*bytes, part * unit / scale);
  if (!total) {
    return absl::OutOfRangeError(
        absl::StrCat("'", text.substr(0, 40),
                     "' is more than 8388607 TiB, the largest "
                     "size there is here"));
  }
  return *total;
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  size_t end = 0;
  while (end < trimmed.size() &&
         (absl::ascii_isdigit(static_cast<unsigned char>(trimmed[end])) ||
          trimmed[end] == '.')) {
    ++end;
  }
  const absl::string_view number = trimmed.substr(0, end);
  const absl::string_view unit_text =
      absl::StripLeadingAsciiWhitespace(trimmed.substr(end));
  const size_t dot = number.find('.');
  const absl::string_view whole_text = number.substr(0, dot);
  const absl::string_view fraction = dot == absl::string_view::npos
                                         ? absl::string_view()
                                         : number.substr(dot + 1);
  if (whole_text.empty() || absl::StrContains(fraction, ".") ||
      (dot != absl::string_view::npos && fraction.empty())) {
    return NotASize(text);
  }
  int64_t whole = 0;
  if (!absl::SimpleAtoi(whole_text, &whole)) {
    return absl::OutOfRangeError(absl::StrCat(
        "'", text.substr(0, 40), "' does not fit in 64 bits of bytes"));
  }
  if (unit_text.empty() || absl::EqualsIgnoreCase(unit_text, "B")) {
    if (!fraction.empty()) return NotASize(text);
    return whole;
  }
  for (const Unit& unit : kUnits) {
    if (absl::EqualsIgnoreCase(unit_text, unit.name)) {
      return Scale(text, whole, fraction, unit.bytes);
    }
  }
  for (absl::string_view letter : {"k", "m", "g", "t"}) {
    if (absl::EqualsIgnoreCase(unit_text, letter) ||
        absl::EqualsIgnoreCase(unit_text, absl::StrCat(letter, "b"))) {
      return DecimalUnit(text, number, unit_text);
    }
  }
  return NotASize(text);
}

std::string FormatBytes(int64_t bytes) {
  if (bytes > -1024 && bytes < 1024) return absl::StrCat(bytes, " B");
  size_t unit = 1;
  // 1023.95 and above would print as 1024.0 of the smaller unit.
  while (unit + 1 < kUnits.size() &&
         static_cast<double>(bytes < 0 ? -bytes : bytes) >=
             1023.95 * static_cast<double>(kUnits[unit].bytes)) {
    ++unit;
  }
  return absl::StrFormat(
      "%.1f %s",
      static_cast<double>(bytes) / static_cast<double>(kUnits[unit].bytes),
      kUnits[unit].name);
}

std::string FormatCounted(int64_t count, absl::string_view what) {
  return absl::StrCat(FormatCount(count), " ", what, count == 1 ? "" : "s");
}

std::string FormatCount(int64_t count) {
  const std::string digits = absl::StrCat(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

}  // namespace plimsoll::cli
