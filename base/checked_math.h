// Integer arithmetic that reports overflow instead of wrapping.
#ifndef PLIMSOLL_BASE_CHECKED_MATH_H_
#define PLIMSOLL_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace plimsoll {

// Returns a + b, or nothing if it does not fit in int64.
constexpr std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// Returns a * b, or nothing if it does not fit in int64.
constexpr std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// Returns the smallest multiple of `multiple` (> 0) that is not below `value`
// (>= 0), or nothing if it does not fit in int64.
constexpr std::optional<int64_t> CheckedRoundUp(int64_t value,
                                                int64_t multiple) {
  const int64_t rest = value % multiple;
  if (rest == 0) return value;
  return CheckedAdd(value, multiple - rest);
}

// Returns ceil(a / b) for a >= 0, b > 0; it cannot overflow.
constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// An int64 sum or product that remembers whether any step overflowed. A long
// formula can be written as one expression and checked once at its end.
class Checked {
 public:
  constexpr Checked(int64_t value) : value_(value) {}  // NOLINT: a number

  // A value that has overflowed already.
  static constexpr Checked Overflow() {
    Checked checked = 0;
    checked.overflow_ = true;
    return checked;
  }

  friend constexpr Checked operator+(Checked a, Checked b) {
    a.overflow_ |= b.overflow_;
    a.overflow_ |= __builtin_add_overflow(a.value_, b.value_, &a.value_);
    return a;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    a.overflow_ |= b.overflow_;
    a.overflow_ |= __builtin_mul_overflow(a.value_, b.value_, &a.value_);
    return a;
  }
  constexpr Checked& operator+=(Checked b) { return *this = *this + b; }
  constexpr Checked& operator*=(Checked b) { return *this = *this * b; }

  constexpr bool overflow() const { return overflow_; }
  // The value, or nothing if any step overflowed.
  constexpr std::optional<int64_t> Get() const {
    if (overflow_) return std::nullopt;
    return value_;
  }

 private:
  int64_t value_;
  bool overflow_ = false;
};

// Rounds `value` up to a multiple of `multiple` (> 0), as CheckedRoundUp does.
constexpr Checked RoundUp(Checked value, int64_t multiple) {
  const auto rounded = CheckedRoundUp(value.Get().value_or(0), multiple);
  return value.overflow() || !rounded ? Checked::Overflow() : Checked(*rounded);
}

// Rounds up to a multiple of a power of two, without a division.
constexpr Checked AlignUp(Checked value, int64_t alignment) {
  const Checked padded = value + (alignment - 1);
  if (padded.overflow()) return padded;
  return *padded.Get() & -alignment;
}

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_CHECKED_MATH_H_
