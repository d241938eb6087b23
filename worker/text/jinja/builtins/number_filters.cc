#include "worker/text/jinja/builtins/number_filters.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/builtins/named_filter.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/strings.h"

namespace plimsoll::worker::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// `text` without white space around it and without underscores between digits;
// nothing if the underscores are elsewhere.
std::optional<std::string> NumberText(const Text& text) {
  const Text stripped = Strip(text, std::nullopt, Side::kBoth);
  std::string out;
  const absl::string_view bytes = stripped.bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '_') {
      out += bytes[i];
      continue;
    }
    const bool is_joined =
        i > 0 && i + 1 < bytes.size() &&
        std::isalnum(static_cast<unsigned char>(bytes[i - 1])) &&
        std::isalnum(static_cast<unsigned char>(bytes[i + 1]));
    if (!is_joined) return std::nullopt;
  }
  return out;
}

// Python's float(str).
std::optional<double> ParseFloat(const Text& text) {
  const std::optional<std::string> number = NumberText(text);
  if (!number || number->empty()) return std::nullopt;
  // strtod reads more than Python: hexadecimal numbers and nan(...).
  if (number->find_first_of("xX(pP") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(number->c_str(), &end);
  if (end != number->c_str() + number->size()) return std::nullopt;
  return value;
}

// Python's int(str, base). Errors: kInvalidArgument beyond 64 bits.
absl::StatusOr<std::optional<int64_t>> ParseInteger(const Text& text,
                                                    int64_t base) {
  std::optional<std::string> number = NumberText(text);
  if (!number || number->empty()) return std::nullopt;
  const bool is_negative = (*number)[0] == '-';
  if (is_negative || (*number)[0] == '+') number->erase(0, 1);
  const char mark = number->size() > 2 && (*number)[0] == '0'
                        ? static_cast<char>((*number)[1] | 0x20)
                        : '\0';
  const int64_t marked = mark == 'x'   ? 16
                         : mark == 'o' ? 8
                         : mark == 'b' ? 2
                                       : 0;
  if (marked != 0 && (base == marked || base == 0)) {
    number->erase(0, 2);
    base = marked;
  }
  if (base == 0) base = 10;
  if (number->empty()) return std::nullopt;
  int64_t value = 0;
  bool is_beyond = false;
  for (const char c : *number) {
    int64_t digit = 99;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (std::isalpha(static_cast<unsigned char>(c)))
      digit = (c | 0x20) - 'a' + 10;
    if (digit >= base) return std::nullopt;
    is_beyond |= __builtin_mul_overflow(value, base, &value);
    is_beyond |= __builtin_add_overflow(value, digit, &value);
  }
  if (is_beyond) {
    return absl::InvalidArgumentError(
        "an integer is beyond the limit of 64 bits");
  }
  return is_negative ? -value : value;
}

Result Truncated(double value) {
  if (!(std::fabs(value) < 9.2e18)) {
    return absl::InvalidArgumentError(
        "an integer is beyond the limit of 64 bits");
  }
  return Value(static_cast<int64_t>(value));
}

Result Int(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("int", {"default", "base"}, 0, std::move(arguments)));
  const Value fallback = bound[0].value_or(Value(int64_t{0}));
  ASSIGN_OR_RETURN(const int64_t base, IntegerArgument(bound[1], 10));
  if (self.is_undefined()) return UndefinedError(self);
  if (self.is_integer()) return Value(self.integer());
  if (self.is_float()) {
    if (std::isnan(self.number())) return fallback;
    return Truncated(self.number());
  }
  if (!self.is_string()) return fallback;
  ASSIGN_OR_RETURN(const auto number, ParseInteger(self.text(), base));
  if (number) return Value(*number);
  const std::optional<double> real = ParseFloat(self.text());
  if (!real || !std::isfinite(*real)) return fallback;
  return Truncated(*real);
}

Result Float(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("float", {"default"}, 0, std::move(arguments)));
  if (self.is_undefined()) return UndefinedError(self);
  if (self.is_number()) return Value(self.number());
  const std::optional<double> number =
      self.is_string() ? ParseFloat(self.text()) : std::nullopt;
  if (number) return Value(*number);
  return bound[0].value_or(Value(0.0));
}

Result Abs(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("abs", arguments, 0, 0));
  if (self.is_float()) return Value(std::fabs(self.number()));
  if (!self.is_integer()) {
    return TypeError(
        absl::StrCat("bad operand type for abs(): '", self.TypeName(), "'"));
  }
  if (self.integer() < 0) return Negate(self, "-");
  return Value(self.integer());
}

// Python's round(): to even where two are equally near.
double Rounded(double value, int64_t precision) {
  if (!std::isfinite(value)) return value;
  if (precision >= 0) {
    double rounded = 0;
    const std::string text =
        absl::StrFormat("%.*f", static_cast<int>(precision), value);
    return absl::SimpleAtod(text, &rounded) ? rounded : value;
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / unit) * unit;
}

Result Round(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("round", {"precision", "method"}, 0, std::move(arguments)));
  ASSIGN_OR_RETURN(int64_t precision, IntegerArgument(bound[0], 0));
  ASSIGN_OR_RETURN(const Text method, TextArgument(bound[1], "common"));
  const absl::string_view name = method.bytes();
  if (name != "common" && name != "ceil" && name != "floor") {
    return TypeError("method must be common, ceil or floor");
  }
  if (self.is_undefined()) return UndefinedError(self);
  if (!self.is_number()) {
    return TypeError(absl::StrCat("type ", self.TypeName(),
                                  " doesn't define __round__ method"));
  }
  precision = std::clamp<int64_t>(precision, -330, 330);
  if (name == "common") {
    if (self.is_float()) return Value(Rounded(self.number(), precision));
    if (precision >= 0) return Value(self.integer());
    return Truncated(Rounded(self.number(), precision));
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * unit;
  if (!std::isfinite(scaled)) {
    return TypeError("cannot convert float infinity to integer");
  }
  return Value((name == "ceil" ? std::ceil(scaled) : std::floor(scaled)) /
               unit);
}

Result Default(Evaluator&, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("default", {"default_value", "boolean"}, 0, std::move(arguments)));
  const bool is_absent =
      self.is_undefined() || (TruthArgument(bound[1]) && !self.Truth());
  if (!is_absent) return self;
  return bound[0].value_or(Value::String(""));
}

Result LengthFilter(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("length", arguments, 0, 0));
  ASSIGN_OR_RETURN(const int64_t length, Length(self));
  return Value(length);
}

constexpr NamedFilter kNumberFilters[] = {
    {"length", LengthFilter},
    {"default", Default},
    {"d", Default},
    {"count", LengthFilter},
    {"int", Int},
    {"float", Float},
    {"abs", Abs},
    {"round", Round},
};

}  // namespace

NativeFunction FindNumberFilter(absl::string_view name) {
  return FindIn(kNumberFilters, name);
}

}  // namespace plimsoll::worker::jinja
