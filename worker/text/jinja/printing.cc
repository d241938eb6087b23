#include "worker/text/jinja/printing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "worker/text/code_points.h"
#include "worker/text/jinja/characters.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"

namespace plimsoll::worker::jinja {
namespace {

// Python's escapes of what cannot be printed.
std::string ReprCharacter(absl::string_view character, char quote) {
  const char c = character[0];
  if (c == '\\' || c == quote) return absl::StrCat("\\", character);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (IsPrintable(character)) return std::string(character);
  const uint32_t code = TakeCodePoint(character).value_or(0);
  if (code < 0x100) return absl::StrFormat("\\x%02x", code);
  if (code < 0x10000) return absl::StrFormat("\\u%04x", code);
  return absl::StrFormat("\\U%08x", code);
}

// Takes the steps of what was printed after the first `before` bytes.
// Errors: kInvalidArgument beyond the limit of a text or of steps.
absl::Status SpendPrinted(Evaluator& evaluator, const TextBuilder& out,
                          size_t before) {
  if (static_cast<int64_t>(out.size()) >
      evaluator.surroundings().limits.max_text_bytes) {
    return absl::InvalidArgumentError("a text is longer than the limit");
  }
  return evaluator.Spend(1 + static_cast<int64_t>(out.size() - before) /
                                 kBytesPerStep);
}

void ReprText(const Text& text, TextBuilder& out) {
  const absl::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != absl::string_view::npos;
  const bool has_double = bytes.find('"') != absl::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const std::string mark(1, quote);
  if (text.is_markup()) out.Append("Markup(");
  out.Append(mark);
  text.ForEachRun([&](absl::string_view run, bool is_tainted) {
    ForEachCharacter(run, [&](absl::string_view character) {
      out.Append(ReprCharacter(character, quote), is_tainted);
    });
  });
  out.Append(mark);
  if (text.is_markup()) out.Append(")");
}

// Writes repr() of nested values.
class Printer {
 public:
  Printer(Evaluator& evaluator, TextBuilder& out)
      : evaluator_(evaluator), out_(out) {}

  absl::Status Print(const Value& value) {
    RETURN_IF_ERROR(CheckNesting(++depth_));
    const size_t before = out_.size();
    RETURN_IF_ERROR(PrintKind(value));
    --depth_;
    return SpendPrinted(evaluator_, out_, before);
  }

 private:
  absl::Status PrintKind(const Value& value) {
    if (value.is_string()) {
      ReprText(value.text(), out_);
      return absl::OkStatus();
    }
    if (value.is_list()) return PrintList(value.list());
    if (value.is_dict()) return PrintDict(value.dict());
    if (value.is_view()) return PrintView(value.view());
    out_.Append(Simple(value));
    return absl::OkStatus();
  }

  static std::string Simple(const Value& value) {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "None";
    if (value.is_bool()) return value.boolean() ? "True" : "False";
    if (value.is_integer()) return absl::StrCat(value.integer());
    if (value.is_float()) return FloatRepr(value.number());
    if (value.is_object()) return value.object().Repr();
    if (value.is_range()) {
      const Range& r = value.range();
      std::string text = absl::StrCat("range(", r.start, ", ", r.stop);
      if (r.step != 1) absl::StrAppend(&text, ", ", r.step);
      absl::StrAppend(&text, ")");
      return text;
    }
    // Python has the name of a function and a place in memory. They are two
    // words, which a filter may count.
    return "<generator object filter at 0x0>";
  }

  absl::Status PrintList(const List& list) {
    out_.Append(list.is_tuple ? "(" : "[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.Append(", ");
      RETURN_IF_ERROR(Print(list.items[i]));
    }
    if (list.is_tuple && list.items.size() == 1) out_.Append(",");
    out_.Append(list.is_tuple ? ")" : "]");
    return absl::OkStatus();
  }

  absl::Status PrintDict(const Dict& dict) {
    out_.Append("{");
    for (size_t i = 0; i < dict.pairs().size(); ++i) {
      if (i > 0) out_.Append(", ");
      RETURN_IF_ERROR(Print(dict.pairs()[i].first));
      out_.Append(": ");
      RETURN_IF_ERROR(Print(dict.pairs()[i].second));
    }
    out_.Append("}");
    return absl::OkStatus();
  }

  absl::Status PrintView(const View& view) {
    const Value whole(view);
    ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(evaluator_, whole));
    ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(items)));
    out_.Append(absl::StrCat(whole.TypeName(), "("));
    RETURN_IF_ERROR(PrintList(list.list()));
    out_.Append(")");
    return absl::OkStatus();
  }

  Evaluator& evaluator_;
  TextBuilder& out_;
  int depth_ = 0;
};

// Escapes as json.dumps writes them.
std::string JsonCharacter(absl::string_view character, bool ensure_ascii) {
  const char c = character[0];
  if (c == '"' || c == '\\') return absl::StrCat("\\", character);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c == '\b') return "\\b";
  if (c == '\f') return "\\f";
  const bool is_ascii = static_cast<unsigned char>(c) < 0x80;
  const bool is_plain = c >= 0x20 && (c < 0x7F || !ensure_ascii);
  if (is_ascii ? is_plain : !ensure_ascii) {
    return std::string(character);
  }
  const uint32_t code = TakeCodePoint(character).value_or(0);
  if (code < 0x10000) return absl::StrFormat("\\u%04x", code);
  return absl::StrFormat("\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                         0xDC00 + (code & 0x3FF));
}

class JsonPrinter {
 public:
  JsonPrinter(Evaluator& evaluator, const JsonStyle& style, TextBuilder& out)
      : evaluator_(evaluator), style_(style), out_(out) {}

  absl::Status Print(const Value& value) {
    RETURN_IF_ERROR(CheckNesting(depth_));
    const size_t before = out_.size();
    if (value.is_string()) {
      PrintText(value.text());
    } else if (value.is_list()) {
      RETURN_IF_ERROR(PrintList(value.items()));
    } else if (value.is_dict()) {
      RETURN_IF_ERROR(PrintDict(value.dict()));
    } else {
      ASSIGN_OR_RETURN(const std::string text, Scalar(value));
      out_.Append(text);
    }
    return SpendPrinted(evaluator_, out_, before);
  }

 private:
  static absl::StatusOr<std::string> Scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return absl::StrCat(value.integer());
    if (value.is_float()) {
      if (std::isnan(value.number())) return "NaN";
      if (std::isinf(value.number())) {
        return value.number() < 0 ? "-Infinity" : "Infinity";
      }
      return FloatRepr(value.number());
    }
    return TypeError(absl::StrCat("Object of type ", value.TypeName(),
                                  " is not JSON serializable"));
  }

  void PrintText(const Text& text) {
    out_.Append("\"");
    text.ForEachRun([&](absl::string_view run, bool is_tainted) {
      ForEachCharacter(run, [&](absl::string_view character) {
        out_.Append(JsonCharacter(character, style_.ensure_ascii), is_tainted);
      });
    });
    out_.Append("\"");
  }

  // Goes to element `i`.
  void BeginElement(size_t i) {
    if (i > 0) out_.Append(style_.item_separator);
    BeginLine(depth_);
  }
  // Goes behind the last one of `n` elements.
  void EndElements(size_t n) {
    if (n > 0) BeginLine(depth_ - 1);
  }
  void BeginLine(int depth) {
    if (!style_.indent) return;
    out_.Append("\n");
    for (int i = 0; i < depth; ++i) out_.Append(*style_.indent);
  }

  absl::Status PrintList(const std::vector<Value>& items) {
    out_.Append("[");
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      BeginElement(i);
      RETURN_IF_ERROR(Print(items[i]));
    }
    EndElements(items.size());
    --depth_;
    out_.Append("]");
    return absl::OkStatus();
  }

  absl::Status PrintKey(const Value& key) {
    if (key.is_string()) {
      PrintText(key.text());
      return absl::OkStatus();
    }
    if (!key.is_number() && !key.is_none()) {
      return TypeError(
          absl::StrCat("keys must be str, int, float, bool or "
                       "None, not ",
                       key.TypeName()));
    }
    ASSIGN_OR_RETURN(const std::string text, Scalar(key));
    out_.Append(absl::StrCat("\"", text, "\""));
    return absl::OkStatus();
  }

  absl::Status PrintDict(const Dict& dict) {
    std::vector<Dict::Pair> pairs = dict.pairs();
    if (style_.sort_keys) {
      RETURN_IF_ERROR(SortByKey(evaluator_, pairs, /*is_reversed=*/false));
    }
    out_.Append("{");
    ++depth_;
    for (size_t i = 0; i < pairs.size(); ++i) {
      BeginElement(i);
      RETURN_IF_ERROR(PrintKey(pairs[i].first));
      out_.Append(style_.key_separator);
      RETURN_IF_ERROR(Print(pairs[i].second));
    }
    EndElements(pairs.size());
    --depth_;
    out_.Append("}");
    return absl::OkStatus();
  }

  Evaluator& evaluator_;
  const JsonStyle& style_;
  TextBuilder& out_;
  int depth_ = 0;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                     std::chars_format::scientific);
  std::string text(buffer, written.ptr);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return text;
  std::string digits = text.substr(0, e);
  const bool is_negative = digits[0] == '-';
  if (is_negative) digits.erase(0, 1);
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  if (exponent < 0) {
    digits.insert(0, static_cast<size_t>(-exponent), '0');
    digits.insert(1, 1, '.');
  } else {
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
    digits.insert(whole, 1, '.');
  }
  return absl::StrCat(is_negative ? "-" : "", digits);
}

absl::StatusOr<Text> Repr(Evaluator& evaluator, const Value& value) {
  TextBuilder out;
  RETURN_IF_ERROR(Printer(evaluator, out).Print(value));
  return out.Take();
}

absl::StatusOr<Text> Str(Evaluator& evaluator, const Value& value) {
  if (value.is_undefined()) return Text();
  if (!value.is_string()) return Repr(evaluator, value);
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(value.text().size()) /
                                  kBytesPerStep));
  Text text = value.text();
  text.set_markup(false);
  return text;
}

absl::StatusOr<Text> ToJson(Evaluator& evaluator, const Value& value,
                            const JsonStyle& style) {
  TextBuilder out;
  RETURN_IF_ERROR(JsonPrinter(evaluator, style, out).Print(value));
  return out.Take();
}

Text EscapeHtml(const Text& text) {
  TextBuilder out;
  text.ForEachRun([&](absl::string_view run, bool is_tainted) {
    for (const char& c : run) {
      absl::string_view shown(&c, 1);
      if (c == '&') shown = "&amp;";
      if (c == '<') shown = "&lt;";
      if (c == '>') shown = "&gt;";
      if (c == '\'') shown = "&#39;";
      if (c == '"') shown = "&#34;";
      out.Append(shown, is_tainted);
    }
  });
  Text escaped = out.Take();
  escaped.set_markup(true);
  return escaped;
}

}  // namespace plimsoll::worker::jinja
