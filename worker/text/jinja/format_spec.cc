#include "worker/text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/code_points.h"
#include "worker/text/jinja/format.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"
#include "worker/text/jinja/strings.h"

namespace plimsoll::worker::jinja {
namespace {

constexpr absl::string_view kAligns = "<>^=";

bool TakeOne(absl::string_view& text, absl::string_view set, char& out) {
  if (text.empty() || set.find(text[0]) == absl::string_view::npos) {
    return false;
  }
  out = text[0];
  text.remove_prefix(1);
  return true;
}

std::string Digits(uint64_t value, uint64_t base, bool is_upper) {
  std::string digits;
  do {
    const uint64_t digit = value % base;
    digits += static_cast<char>(
        digit < 10 ? '0' + digit : (is_upper ? 'A' : 'a') + digit - 10);
    value /= base;
  } while (value > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// Puts `separator` between groups of the digits in front of a point.
void Group(std::string& digits, char separator, size_t size) {
  size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"),
                        digits.size());
  while (end > size) {
    end -= size;
    digits.insert(end, 1, separator);
  }
}

// `digits` with sign and prefix, in the width.
Text Signed(bool is_negative, absl::string_view prefix,
            const std::string& digits, const FormatSpec& spec) {
  std::string sign = is_negative ? "-" : "";
  if (!is_negative && spec.sign != '-') sign = std::string(1, spec.sign);
  absl::StrAppend(&sign, prefix);
  FormatSpec padding = spec;
  padding.precision = std::nullopt;
  if (padding.align == 0) padding.align = '>';
  if (padding.align != '=') {
    return FormatText(Text(sign + digits), padding);
  }
  padding.align = '>';
  padding.width -= static_cast<int64_t>(sign.size());
  TextBuilder out;
  out.Append(sign);
  out.Append(FormatText(Text(digits), padding));
  return out.Take();
}

// Drops zeros at the end of a fraction as "g" does.
void DropZeros(std::string& digits) {
  const size_t e = std::min(digits.find('e'), digits.size());
  const std::string exponent = digits.substr(e);
  digits.resize(e);
  if (digits.find('.') != std::string::npos) {
    while (digits.back() == '0') digits.pop_back();
    if (digits.back() == '.') digits.pop_back();
  }
  digits += exponent;
}

std::string Printed(double value, char kind, int64_t precision,
                    bool is_alternate) {
  const char format[] = {'%',
                         is_alternate ? '#' : '.',
                         is_alternate ? '.' : '*',
                         is_alternate ? '*' : kind,
                         is_alternate ? kind : '\0',
                         '\0'};
  std::string out(400 + static_cast<size_t>(precision), '\0');
  // The format is one of ours: a precision and a kind.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int n = std::snprintf(out.data(), out.size(), format,
                              static_cast<int>(precision), value);
#pragma GCC diagnostic pop
  out.resize(static_cast<size_t>(std::max(n, 0)));
  return out;
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> TakeWidth(absl::string_view& text) {
  std::optional<int64_t> width;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    width = width.value_or(0) * 10 + (text[0] - '0');
    if (*width > kMaxFieldWidth) {
      return TypeError("a field is wider than the limit");
    }
    text.remove_prefix(1);
  }
  return width;
}

absl::StatusOr<FormatSpec> ParseSpec(absl::string_view text) {
  FormatSpec spec;
  absl::string_view after_fill = text;
  if (!text.empty() && TakeCodePoint(after_fill) && !after_fill.empty() &&
      kAligns.find(after_fill[0]) != absl::string_view::npos) {
    spec.fill = std::string(text.substr(0, text.size() - after_fill.size()));
    text = after_fill;
  }
  TakeOne(text, kAligns, spec.align);
  TakeOne(text, "+- ", spec.sign);
  char ignored = 0;
  spec.is_alternate = TakeOne(text, "#", ignored);
  if (TakeOne(text, "0", ignored) && spec.align == 0) {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  ASSIGN_OR_RETURN(const auto width, TakeWidth(text));
  spec.width = width.value_or(0);
  TakeOne(text, ",_", spec.grouping);
  if (TakeOne(text, ".", ignored)) {
    ASSIGN_OR_RETURN(spec.precision, TakeWidth(text));
    if (!spec.precision) return TypeError("Format specifier missing precision");
  }
  if (!text.empty()) {
    spec.kind = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) return TypeError("Invalid format specifier");
  return spec;
}

absl::StatusOr<Text> FormatInteger(int64_t value, const FormatSpec& spec) {
  const bool is_negative = value < 0;
  const uint64_t size = is_negative ? uint64_t{0} - static_cast<uint64_t>(value)
                                    : static_cast<uint64_t>(value);
  uint64_t base = 10;
  if (spec.kind == 'x' || spec.kind == 'X') base = 16;
  if (spec.kind == 'o') base = 8;
  if (spec.kind == 'b') base = 2;
  std::string digits = Digits(size, base, spec.kind == 'X');
  const int64_t least = spec.precision.value_or(0);
  if (static_cast<int64_t>(digits.size()) < least) {
    digits.insert(0, static_cast<size_t>(least) - digits.size(), '0');
  }
  if (spec.grouping != 0) Group(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string prefix;
  if (spec.is_alternate && base != 10) prefix = std::string({'0', spec.kind});
  return Signed(is_negative, prefix, digits, spec);
}

absl::StatusOr<Text> FormatFloat(double value, const FormatSpec& spec) {
  char kind = spec.kind;
  const bool is_percent = kind == '%';
  if (is_percent) {
    value *= 100;
    kind = 'f';
  }
  std::string digits;
  if (!std::isfinite(value)) {
    const bool is_upper = kind == 'F' || kind == 'E' || kind == 'G';
    digits = std::string(std::isnan(value) ? (is_upper ? "NAN" : "nan")
                                           : (is_upper ? "INF" : "inf"));
  } else if (kind == 0 && !spec.precision) {
    digits = FloatRepr(std::fabs(value));
  } else {
    int64_t precision = spec.precision.value_or(6);
    const char plain = kind == 0 ? 'g' : kind;
    if (plain == 'g' || plain == 'G')
      precision = std::max<int64_t>(precision, 1);
    digits = Printed(std::fabs(value), plain, precision, spec.is_alternate);
    if (kind == 0) {
      DropZeros(digits);
      if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    }
  }
  if (spec.grouping != 0) Group(digits, spec.grouping, 3);
  if (is_percent) digits += '%';
  return Signed(std::signbit(value) && !std::isnan(value), "", digits, spec);
}

Text FormatText(const Text& text, const FormatSpec& spec) {
  Text cut = text;
  if (spec.precision && *spec.precision < text.length()) {
    cut = text.Slice(0, text.ByteOf(*spec.precision));
  }
  const int64_t missing = std::max<int64_t>(spec.width - cut.length(), 0);
  const int64_t left = spec.align == '>' || spec.align == '=' ? missing
                       : spec.align == '^'                    ? missing / 2
                                                              : 0;
  TextBuilder out;
  for (int64_t i = 0; i < left; ++i) out.Append(spec.fill);
  out.Append(cut);
  for (int64_t i = left; i < missing; ++i) out.Append(spec.fill);
  return out.Take();
}

absl::StatusOr<Text> FormatValue(Evaluator& evaluator, const Value& value,
                                 absl::string_view text) {
  if (text.empty()) return Str(evaluator, value);
  ASSIGN_OR_RETURN(const FormatSpec spec, ParseSpec(text));
  const auto is_kind = [&spec](absl::string_view kinds) {
    return spec.kind == 0 || kinds.find(spec.kind) != absl::string_view::npos;
  };
  if (value.is_string() && is_kind("s") && spec.align != '=') {
    return FormatText(value.text(), spec);
  }
  if (value.is_integer() && is_kind("bdoxXn") && !spec.precision) {
    return FormatInteger(value.integer(), spec);
  }
  if (value.is_integer() && spec.kind == 'c') {
    std::string character;
    const int64_t code = value.integer();
    if (code < 0 || code > kMaxCodePoint)
      return TypeError("%c arg not in range");
    AppendUtf8(static_cast<uint32_t>(code), character);
    return FormatText(Text(std::move(character)), spec);
  }
  if (value.is_number() && is_kind("eEfFgGn%")) {
    return FormatFloat(value.number(), spec);
  }
  return TypeError(
      absl::StrCat("unsupported format string passed to ", value.TypeName()));
}

}  // namespace plimsoll::worker::jinja
