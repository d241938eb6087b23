// Decimal numbers as JSON writes them, without rounding.
#ifndef PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_DECIMAL_H_
#define PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_DECIMAL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The number `digits` * 10^`exponent`. Zero has no digits, no exponent and no
// sign; other numbers have digits that neither begin nor end with 0.
struct Decimal {
  // The largest exponent and the most digits that ParseDecimal takes.
  static constexpr int64_t kMaxExponent = 100'000;

  bool is_negative = false;
  std::string digits;
  int64_t exponent = 0;

  bool is_zero() const { return digits.empty(); }
  bool is_integer() const { return exponent >= 0; }
  // Digits before the point, without leading zeros. Zero or negative if there
  // are no such digits.
  int64_t whole_digits() const {
    return static_cast<int64_t>(digits.size()) + exponent;
  }
  // The digit of 10^`place`.
  char DigitAt(int64_t place) const;

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// The number that `text` means in JSON; nothing if `text` is no number, or if
// its exponent exceeds the limit.
std::optional<Decimal> ParseDecimal(absl::string_view text);

// Negative if a < b, 0 if a = b, positive if a > b.
int Compare(const Decimal& a, const Decimal& b);

// The remainder of a whole number's absolute value by `divisor`, which is
// positive and at most 2^31.
int64_t Remainder(const Decimal& whole, int64_t divisor);

// The number without an exponent, if it has at most `max_whole` digits before
// the point and at most `max_fraction` after it.
std::optional<std::string> PlainText(const Decimal& number, int64_t max_whole,
                                     int64_t max_fraction);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_SCHEMA_SHAPES_DECIMAL_H_
