#include "worker/text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/code_points.h"
#include "worker/text/jinja/format_spec.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"

namespace plimsoll::worker::jinja {
namespace {

// Carries out `format % values`.
class PercentFormatter {
 public:
  PercentFormatter(Evaluator& evaluator, const Text& format,
                   const Value& values)
      : evaluator_(evaluator), format_(format), values_(values) {}

  absl::StatusOr<Text> Run() {
    const absl::string_view bytes = format_.bytes();
    while (true) {
      const size_t percent = bytes.find('%', at_);
      const size_t end = std::min(percent, bytes.size());
      out_.Append(format_.Slice(at_, end));
      if (end == bytes.size()) break;
      at_ = end + 1;
      RETURN_IF_ERROR(Field());
    }
    const bool is_tuple = values_.is_list() && values_.list().is_tuple;
    // What can be indexed may stay unused, as keys might have taken parts of
    // it.
    const bool is_indexed = values_.is_dict() || values_.is_list() ||
                            values_.is_range() || values_.is_undefined();
    const bool must_use = is_tuple || !is_indexed;
    const size_t n = is_tuple ? values_.items().size() : 1;
    if (must_use && next_ < n) {
      return TypeError("not all arguments converted during string formatting");
    }
    return out_.Take();
  }

 private:
  absl::StatusOr<Value> NextValue() {
    if (values_.is_list() && values_.list().is_tuple) {
      if (next_ < values_.items().size()) return values_.items()[next_++];
    } else if (next_ == 0) {
      ++next_;
      return values_;
    }
    return TypeError("not enough arguments for format string");
  }

  absl::StatusOr<std::optional<Value>> Key(absl::string_view& rest) {
    if (rest.empty() || rest[0] != '(') return std::nullopt;
    const size_t end = rest.find(')');
    if (end == absl::string_view::npos) {
      return TypeError("incomplete format key");
    }
    if (!values_.is_dict()) return TypeError("format requires a mapping");
    const Value* value = values_.dict().Find(rest.substr(1, end - 1));
    if (value == nullptr) return TypeError("a format key is missing");
    rest.remove_prefix(end + 1);
    next_ = 1;
    return *value;
  }

  absl::StatusOr<std::optional<int64_t>> Size(absl::string_view& rest) {
    if (rest.empty() || rest[0] != '*') return TakeWidth(rest);
    rest.remove_prefix(1);
    ASSIGN_OR_RETURN(const Value value, NextValue());
    if (!value.is_integer()) return TypeError("* wants int");
    if (std::abs(value.integer()) > kMaxFieldWidth) {
      return TypeError("a field is wider than the limit");
    }
    return value.integer();
  }

  absl::Status Field() {
    absl::string_view rest = format_.bytes().substr(at_);
    ASSIGN_OR_RETURN(const std::optional<Value> value, Key(rest));
    FormatSpec spec;
    spec.align = '>';
    bool is_left = false;
    bool has_zeros = false;
    for (; !rest.empty(); rest.remove_prefix(1)) {
      const char flag = rest[0];
      if (flag == '-') {
        is_left = true;
      } else if (flag == '+' || (flag == ' ' && spec.sign == '-')) {
        spec.sign = flag;
      } else if (flag == '#') {
        spec.is_alternate = true;
      } else if (flag == '0') {
        has_zeros = true;
      } else if (flag != ' ') {
        break;
      }
    }
    ASSIGN_OR_RETURN(const auto width, Size(rest));
    spec.width = std::abs(width.value_or(0));
    is_left |= width.value_or(0) < 0;
    if (!rest.empty() && rest[0] == '.') {
      rest.remove_prefix(1);
      ASSIGN_OR_RETURN(const auto precision, Size(rest));
      spec.precision = std::max<int64_t>(precision.value_or(0), 0);
    }
    while (!rest.empty() &&
           (rest[0] == 'l' || rest[0] == 'h' || rest[0] == 'L')) {
      rest.remove_prefix(1);
    }
    if (rest.empty()) return TypeError("incomplete format");
    spec.kind = rest[0];
    at_ = format_.size() - rest.size() + 1;
    if (is_left) {
      spec.align = '<';
    } else if (has_zeros && spec.kind != 's' && spec.kind != 'r' &&
               spec.kind != 'a' && spec.kind != 'c') {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    return Convert(spec, value);
  }

  absl::Status Convert(const FormatSpec& spec,
                       const std::optional<Value>& keyed) {
    if (spec.kind == '%') {
      out_.Append("%");
      return absl::OkStatus();
    }
    Value next;
    if (!keyed) {
      ASSIGN_OR_RETURN(next, NextValue());
    }
    const Value& value = keyed ? *keyed : next;
    switch (spec.kind) {
      case 's': {
        ASSIGN_OR_RETURN(const Text text, Str(evaluator_, value));
        out_.Append(FormatText(text, spec));
        return absl::OkStatus();
      }
      case 'r':
      case 'a': {
        ASSIGN_OR_RETURN(const Text text, Repr(evaluator_, value));
        out_.Append(FormatText(text, spec));
        return absl::OkStatus();
      }
      case 'c':
        return Character(value, spec);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return Integer(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (value.is_undefined()) return UndefinedError(value);
        if (!value.is_number()) return TypeError("must be real number");
        ASSIGN_OR_RETURN(const Text text, FormatFloat(value.number(), spec));
        out_.Append(text);
        return absl::OkStatus();
      }
      default:
        return TypeError("unsupported format character");
    }
  }

  absl::Status Integer(const Value& value, const FormatSpec& spec) {
    if (value.is_undefined()) return UndefinedError(value);
    const bool is_decimal =
        spec.kind == 'd' || spec.kind == 'i' || spec.kind == 'u';
    int64_t number = 0;
    if (value.is_integer()) {
      number = value.integer();
    } else if (value.is_float() && is_decimal &&
               std::fabs(value.number()) < 9.2e18) {
      number = static_cast<int64_t>(value.number());
    } else {
      return TypeError(absl::StrCat("%", std::string(1, spec.kind),
                                    " format: an integer is required, not ",
                                    value.TypeName()));
    }
    ASSIGN_OR_RETURN(const Text text, FormatInteger(number, spec));
    out_.Append(text);
    return absl::OkStatus();
  }

  absl::Status Character(const Value& value, const FormatSpec& spec) {
    FormatSpec padding = spec;
    padding.precision = std::nullopt;
    if (value.is_string() && value.text().length() == 1) {
      out_.Append(FormatText(value.text(), padding));
      return absl::OkStatus();
    }
    if (!value.is_integer() || !IsCharacter(value.integer())) {
      return TypeError("%c requires int or char");
    }
    std::string character;
    AppendUtf8(static_cast<uint32_t>(value.integer()), character);
    out_.Append(FormatText(Text(std::move(character)), padding));
    return absl::OkStatus();
  }

  Evaluator& evaluator_;
  const Text& format_;
  const Value& values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;  // values that have been used
};

// Carries out `format.format(...)`.
class BraceFormatter {
 public:
  BraceFormatter(Evaluator& evaluator, const Arguments& arguments)
      : evaluator_(evaluator), arguments_(arguments) {}

  absl::StatusOr<Text> Run(const Text& format, int depth) {
    const absl::string_view bytes = format.bytes();
    if (depth > 2) return TypeError("Max string recursion exceeded");
    TextBuilder out;
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t brace =
          std::min(bytes.find_first_of("{}", at), bytes.size());
      out.Append(format.Slice(at, brace));
      if (brace == bytes.size()) break;
      if (bytes.substr(brace + 1, 1) == bytes.substr(brace, 1)) {
        out.Append(format.Slice(brace, brace + 1));
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') {
        return TypeError("Single '}' encountered in format string");
      }
      ASSIGN_OR_RETURN(const size_t end, FieldEnd(bytes, brace + 1));
      ASSIGN_OR_RETURN(const Text field,
                       Field(format.Slice(brace + 1, end), depth));
      out.Append(field);
      at = end + 1;
    }
    return out.Take();
  }

 private:
  static absl::StatusOr<size_t> FieldEnd(absl::string_view bytes, size_t at) {
    int open = 1;
    for (; at < bytes.size(); ++at) {
      if (bytes[at] == '{') ++open;
      if (bytes[at] == '}' && --open == 0) return at;
    }
    return TypeError("expected '}' before end of string");
  }

  absl::StatusOr<Text> Field(const Text& field, int depth) {
    const absl::string_view bytes = field.bytes();
    size_t brackets_end = 0;  // ':' and '!' in brackets belong to a key
    size_t end = bytes.find_first_of("[:!");
    while (end != absl::string_view::npos && bytes[end] == '[') {
      brackets_end = bytes.find(']', end);
      if (brackets_end == absl::string_view::npos) break;
      end = bytes.find_first_of("[:!", brackets_end);
    }
    end = std::min(end, bytes.size());
    ASSIGN_OR_RETURN(Value value, Named(bytes.substr(0, end)));
    absl::string_view rest = bytes.substr(end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        return TypeError("expected ':' after conversion specifier");
      }
      ASSIGN_OR_RETURN(value, Converted(value, rest[1]));
      rest.remove_prefix(2);
    }
    if (rest.empty()) return Str(evaluator_, value);
    const size_t spec_begin = bytes.size() - rest.size() + 1;
    ASSIGN_OR_RETURN(const Text spec,
                     Run(field.Slice(spec_begin, bytes.size()), depth + 1));
    return FormatValue(evaluator_, value, spec.bytes());
  }

  absl::StatusOr<Value> Converted(const Value& value, char conversion) {
    if (conversion == 's') {
      ASSIGN_OR_RETURN(Text text, Str(evaluator_, value));
      return Value(std::move(text));
    }
    if (conversion != 'r') return TypeError("unknown conversion specifier");
    ASSIGN_OR_RETURN(Text text, Repr(evaluator_, value));
    return Value(std::move(text));
  }

  absl::StatusOr<Value> First(absl::string_view name) {
    int64_t index = 0;
    const bool is_number = absl::SimpleAtoi(name, &index) && index >= 0;
    if (name.empty() || is_number) {
      if (name.empty()) index = next_++;
      (name.empty() ? is_automatic_ : is_numbered_) = true;
      if (is_automatic_ && is_numbered_) {
        return TypeError("cannot switch between manual and automatic fields");
      }
      if (index < static_cast<int64_t>(arguments_.positional.size())) {
        return arguments_.positional[static_cast<size_t>(index)];
      }
      return TypeError("Replacement index out of range");
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    return TypeError(absl::StrCat("there is no argument '", name, "'"));
  }

  // The value of "name.member[key]".
  absl::StatusOr<Value> Named(absl::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    ASSIGN_OR_RETURN(Value value, First(name.substr(0, end)));
    absl::string_view rest = name.substr(end);
    while (!rest.empty()) {
      const bool is_member = rest[0] == '.';
      rest.remove_prefix(1);
      const size_t stop = is_member
                              ? std::min(rest.find_first_of(".["), rest.size())
                              : rest.find(']');
      if (stop == absl::string_view::npos || stop == 0) {
        return TypeError("Empty attribute in format string");
      }
      const absl::string_view part = rest.substr(0, stop);
      rest.remove_prefix(is_member ? stop : stop + 1);
      if (is_member) {
        ASSIGN_OR_RETURN(value, GetMember(evaluator_, value, part));
        continue;
      }
      int64_t index = 0;
      const Value key =
          absl::SimpleAtoi(part, &index) ? Value(index) : Value::String(part);
      ASSIGN_OR_RETURN(value, GetItem(evaluator_, value, key));
    }
    return value;
  }

  Evaluator& evaluator_;
  const Arguments& arguments_;
  int64_t next_ = 0;
  bool is_automatic_ = false;
  bool is_numbered_ = false;
};

}  // namespace

absl::StatusOr<Value> FormatPercent(Evaluator& evaluator, const Value& format,
                                    const Value& values) {
  ASSIGN_OR_RETURN(Text text,
                   PercentFormatter(evaluator, format.text(), values).Run());
  return evaluator.MakeText(std::move(text));
}

absl::StatusOr<Value> FormatBraces(Evaluator& evaluator, const Text& format,
                                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(Text text,
                   BraceFormatter(evaluator, arguments).Run(format, 1));
  return evaluator.MakeText(std::move(text));
}

}  // namespace plimsoll::worker::jinja
