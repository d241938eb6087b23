#include "worker/text/schema/shapes/decimal.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace plimsoll::worker {
namespace {

// Takes the digits at the front of `text`.
absl::string_view TakeDigits(absl::string_view& text) {
  size_t n = 0;
  while (n < text.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[n]))) {
    ++n;
  }
  const absl::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

// Takes the exponent at the front of `text`; 0 if there is none.
std::optional<int64_t> TakeExponent(absl::string_view& text) {
  if (!absl::ConsumePrefix(&text, "e") && !absl::ConsumePrefix(&text, "E")) {
    return 0;
  }
  const bool is_negative = absl::ConsumePrefix(&text, "-");
  if (!is_negative) absl::ConsumePrefix(&text, "+");
  const absl::string_view digits = TakeDigits(text);
  int64_t exponent = 0;
  if (digits.empty() || !absl::SimpleAtoi(digits, &exponent) ||
      exponent > Decimal::kMaxExponent) {
    return std::nullopt;
  }
  return is_negative ? -exponent : exponent;
}

// Compares two sizes of numbers that are not zero.
int CompareSizes(const Decimal& a, const Decimal& b) {
  if (a.whole_digits() != b.whole_digits()) {
    return a.whole_digits() < b.whole_digits() ? -1 : 1;
  }
  // Both begin with the same place and end without zeros.
  return a.digits.compare(b.digits);
}

}  // namespace

char Decimal::DigitAt(int64_t place) const {
  const int64_t at = whole_digits() - 1 - place;
  const bool is_there = at >= 0 && at < static_cast<int64_t>(digits.size());
  return is_there ? digits[static_cast<size_t>(at)] : '0';
}

std::optional<Decimal> ParseDecimal(absl::string_view text) {
  Decimal number;
  number.is_negative = absl::ConsumePrefix(&text, "-");
  const absl::string_view whole = TakeDigits(text);
  absl::string_view fraction;
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) {
    return std::nullopt;
  }
  if (absl::ConsumePrefix(&text, ".")) {
    fraction = TakeDigits(text);
    if (fraction.empty()) return std::nullopt;
  }
  const std::optional<int64_t> exponent = TakeExponent(text);
  if (!exponent || !text.empty()) return std::nullopt;
  number.digits = absl::StrCat(whole, fraction);
  number.exponent = *exponent - static_cast<int64_t>(fraction.size());
  const size_t last = number.digits.find_last_not_of('0');
  if (last == std::string::npos) return Decimal();
  number.exponent += static_cast<int64_t>(number.digits.size() - last) - 1;
  number.digits.resize(last + 1);
  number.digits.erase(0, number.digits.find_first_not_of('0'));
  return number;
}

int Compare(const Decimal& a, const Decimal& b) {
  if (a.is_zero() || b.is_zero()) {
    if (a.is_zero() && b.is_zero()) return 0;
    if (a.is_zero()) return b.is_negative ? 1 : -1;
    return a.is_negative ? -1 : 1;
  }
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  return a.is_negative ? CompareSizes(b, a) : CompareSizes(a, b);
}

int64_t Remainder(const Decimal& whole, int64_t divisor) {
  int64_t rest = 0;
  for (int64_t place = whole.whole_digits() - 1; place >= 0; --place) {
    rest = (rest * 10 + (whole.DigitAt(place) - '0')) % divisor;
  }
  return rest;
}

std::optional<std::string> PlainText(const Decimal& number, int64_t max_whole,
                                     int64_t max_fraction) {
  if (number.is_zero()) return "0";
  if (number.whole_digits() > max_whole || -number.exponent > max_fraction) {
    return std::nullopt;
  }
  std::string text = number.is_negative ? "-" : "";
  const int64_t first = std::max<int64_t>(number.whole_digits() - 1, 0);
  for (int64_t place = first; place >= std::min<int64_t>(number.exponent, 0);
       --place) {
    if (place == -1) text.push_back('.');
    text.push_back(number.DigitAt(place));
  }
  return text;
}

}  // namespace plimsoll::worker
