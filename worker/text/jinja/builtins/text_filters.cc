#include "worker/text/jinja/builtins/text_filters.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/builtins/filters.h"
#include "worker/text/jinja/builtins/named_filter.h"
#include "worker/text/jinja/characters.h"
#include "worker/text/jinja/format.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"
#include "worker/text/jinja/string_methods.h"
#include "worker/text/jinja/strings.h"

namespace plimsoll::worker::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// The value as text; markup stays markup.
absl::StatusOr<Text> Soft(Evaluator& evaluator, const Value& value) {
  if (!value.is_string()) return Str(evaluator, value);
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(value.text().size()) /
                                  kBytesPerStep));
  return value.text();
}

template <Text (*change)(const Text&)>
Result ChangedText(Evaluator& evaluator, const Value& self,
                   Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("a filter", arguments, 0, 0));
  ASSIGN_OR_RETURN(const Text text, Soft(evaluator, self));
  return evaluator.MakeText(change(text));
}

Result StringFilter(Evaluator& evaluator, const Value& self,
                    Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("string", arguments, 0, 0));
  ASSIGN_OR_RETURN(Text text, Soft(evaluator, self));
  return evaluator.MakeText(std::move(text));
}

Result Trim(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("trim", {"chars"}, 0, std::move(arguments)));
  ASSIGN_OR_RETURN(const Text text, Soft(evaluator, self));
  if (!bound[0] || bound[0]->is_none()) {
    return evaluator.MakeText(Strip(text, std::nullopt, Side::kBoth));
  }
  ASSIGN_OR_RETURN(const Text set, TextArgument(bound[0]));
  return evaluator.MakeText(Strip(text, set.bytes(), Side::kBoth));
}

Result Center(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("center", {"width"}, 0, std::move(arguments)));
  ASSIGN_OR_RETURN(const Text text, Soft(evaluator, self));
  ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(bound[0], 80));
  if (width > kMaxFieldWidth)
    return TypeError("a field is wider than the limit");
  return evaluator.MakeText(Padded(text, width, " ", Side::kBoth));
}

Result ReplaceFilter(Evaluator& evaluator, const Value& self,
                     Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("replace", {"old", "new", "count"}, 2, std::move(arguments)));
  ASSIGN_OR_RETURN(const Text text, Str(evaluator, self));
  ASSIGN_OR_RETURN(const Text old, Str(evaluator, *bound[0]));
  ASSIGN_OR_RETURN(const Text fresh, Str(evaluator, *bound[1]));
  const bool is_counted = bound[2] && !bound[2]->is_none();
  ASSIGN_OR_RETURN(const int64_t most, is_counted
                                           ? IntegerArgument(bound[2], -1)
                                           : absl::StatusOr<int64_t>(-1));
  RETURN_IF_ERROR(CheckReplaced(evaluator, text, old, fresh));
  return evaluator.MakeText(Replace(text, old.bytes(), fresh, most));
}

Result JoinFilter(Evaluator& evaluator, const Value& self,
                  Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("join", {"d", "attribute"}, 0, std::move(arguments)));
  ASSIGN_OR_RETURN(const Text separator, bound[0]
                                             ? Str(evaluator, *bound[0])
                                             : absl::StatusOr<Text>(Text()));
  Value items = self;
  if (bound[1] && !bound[1]->is_none()) {
    Arguments map;
    map.named.emplace_back("attribute", *bound[1]);
    ASSIGN_OR_RETURN(items, evaluator.ApplyFilter(FindFilter("map"), "map",
                                                  self, std::move(map)));
    // An error of an item that cannot be iterated over comes first.
    RETURN_IF_ERROR(Iterate(self).status());
  }
  ASSIGN_OR_RETURN(const std::vector<Value> all, ToVector(evaluator, items));
  return JoinTexts(evaluator, all, separator, /*converts=*/true);
}

Result FormatFilter(Evaluator& evaluator, const Value& self,
                    Arguments&& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return TypeError(
        "can't handle positional and keyword arguments at the same time");
  }
  ASSIGN_OR_RETURN(Text format, Soft(evaluator, self));
  const Value text(std::move(format));
  if (arguments.named.empty()) {
    ASSIGN_OR_RETURN(const Value values,
                     Value::MakeTuple(std::move(arguments.positional)));
    return FormatPercent(evaluator, text, values);
  }
  auto values = std::make_shared<Dict>();
  for (auto& [name, value] : arguments.named) {
    RETURN_IF_ERROR(values->Set(Value::String(name), std::move(value)));
  }
  return FormatPercent(evaluator, text,
                       Value(std::shared_ptr<const Dict>(std::move(values))));
}

Result Indent(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("indent", {"width", "first", "blank"}, 0, std::move(arguments)));
  ASSIGN_OR_RETURN(const Text text, TextArgument(self));
  Text indent;
  if (bound[0] && bound[0]->is_string()) {
    indent = bound[0]->text();
  } else {
    ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(bound[0], 4));
    if (width > kMaxFieldWidth) {
      return TypeError("a field is wider than the limit");
    }
    indent = Text(
        std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  const bool indents_blank = TruthArgument(bound[2]);
  TextBuilder whole;
  whole.Append(text);
  whole.Append("\n");
  const std::vector<Text> lines =
      SplitLines(whole.Take(), /*keeps_ends=*/false);
  RETURN_IF_ERROR(evaluator.Spend(
      static_cast<int64_t>(lines.size() * (1 + indent.size() / 64))));
  TextBuilder out;
  if (TruthArgument(bound[1])) out.Append(indent);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.Append("\n");
      if (indents_blank || lines[i].size() > 0) out.Append(indent);
    }
    out.Append(lines[i]);
  }
  Text indented = out.Take();
  indented.set_markup(text.is_markup());
  return evaluator.MakeText(std::move(indented));
}

Result Truncate(Evaluator& evaluator, const Value& self,
                Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("truncate", {"length", "killwords", "end", "leeway"}, 0,
                        std::move(arguments)));
  ASSIGN_OR_RETURN(const int64_t length, IntegerArgument(bound[0], 255));
  ASSIGN_OR_RETURN(const Text end, TextArgument(bound[2], "..."));
  const bool has_leeway = bound[3] && !bound[3]->is_none();
  ASSIGN_OR_RETURN(const int64_t leeway, has_leeway
                                             ? IntegerArgument(bound[3], 5)
                                             : absl::StatusOr<int64_t>(5));
  if (length < end.length() || leeway < 0) {
    return TypeError("expected a longer length");
  }
  ASSIGN_OR_RETURN(const int64_t n, Length(self));
  if (n - leeway <= length) return self;
  ASSIGN_OR_RETURN(const Text text, TextArgument(self));
  Text kept = text.Slice(0, text.ByteOf(length - end.length()));
  if (!TruthArgument(bound[1])) kept = SplitRight(kept, " ", 1)[0];
  TextBuilder out;
  out.Append(kept);
  out.Append(end);
  return evaluator.MakeText(out.Take());
}

Result WordCount(Evaluator& evaluator, const Value& self,
                 Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("wordcount", arguments, 0, 0));
  ASSIGN_OR_RETURN(const Text text, Soft(evaluator, self));
  int64_t n = 0;
  bool is_in_word = false;
  ForEachCharacter(text.bytes(), [&](absl::string_view character) {
    const bool is_word = IsKind(character, CharacterKind::kWord);
    n += is_word && !is_in_word ? 1 : 0;
    is_in_word = is_word;
  });
  return Value(n);
}

Result Escape(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("escape", arguments, 0, 0));
  if (self.is_string() && self.text().is_markup()) return self;
  ASSIGN_OR_RETURN(const Text text, Str(evaluator, self));
  return evaluator.MakeText(EscapeHtml(text));
}

Result ForceEscape(Evaluator& evaluator, const Value& self,
                   Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("forceescape", arguments, 0, 0));
  ASSIGN_OR_RETURN(const Text text, Str(evaluator, self));
  return evaluator.MakeText(EscapeHtml(text));
}

Result Safe(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("safe", arguments, 0, 0));
  ASSIGN_OR_RETURN(Text text, Str(evaluator, self));
  text.set_markup(true);
  return evaluator.MakeText(std::move(text));
}

// Percent signs for all but letters, digits and what is in `safe`.
Text Quoted(const Text& text, bool is_query) {
  const absl::string_view safe = is_query ? "_.-~" : "_.-~/";
  TextBuilder out;
  text.ForEachRun([&](absl::string_view run, bool is_tainted) {
    for (const char& c : run) {
      const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                            (c >= 'A' && c <= 'Z') ||
                            safe.find(c) != absl::string_view::npos;
      if (is_plain) {
        out.Append(absl::string_view(&c, 1), is_tainted);
      } else if (is_query && c == ' ') {
        out.Append("+", is_tainted);
      } else {
        out.Append(absl::StrFormat("%%%02X", static_cast<unsigned char>(c)),
                   is_tainted);
      }
    }
  });
  return out.Take();
}

Result UrlEncode(Evaluator& evaluator, const Value& self,
                 Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("urlencode", arguments, 0, 0));
  if (self.is_string() || !IsIterable(self)) {
    ASSIGN_OR_RETURN(const Text text, Str(evaluator, self));
    return evaluator.MakeText(Quoted(text, /*is_query=*/false));
  }
  Value pairs = self;
  if (self.is_dict())
    pairs = Value(View{self.shared_dict(), View::Kind::kItems});
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(evaluator, pairs));
  std::vector<Text> parts;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const std::vector<Value> pair, ToVector(evaluator, item));
    if (pair.size() != 2) return TypeError("an element is no pair");
    ASSIGN_OR_RETURN(const Text key, Str(evaluator, pair[0]));
    ASSIGN_OR_RETURN(const Text value, Str(evaluator, pair[1]));
    parts.push_back(Joined(
        {Quoted(key, /*is_query=*/true), Quoted(value, /*is_query=*/true)},
        Text("=")));
  }
  return evaluator.MakeText(Joined(parts, Text("&")));
}

absl::StatusOr<std::optional<std::string>> JsonIndent(
    const std::optional<Value>& value) {
  if (!value || value->is_none()) return std::nullopt;
  if (value->is_string()) return std::string(value->bytes());
  ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(value, 0));
  if (width > kMaxFieldWidth)
    return TypeError("an indent is wider than the limit");
  return std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
}

Result ToJsonFilter(Evaluator& evaluator, const Value& self,
                    Arguments&& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      Bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0,
           std::move(arguments)));
  JsonStyle style;
  style.ensure_ascii = TruthArgument(bound[0]);
  ASSIGN_OR_RETURN(style.indent, JsonIndent(bound[1]));
  style.item_separator = std::string(style.indent ? "," : ", ");
  if (bound[2] && !bound[2]->is_none()) {
    ASSIGN_OR_RETURN(const std::vector<Value> pair,
                     ToVector(evaluator, *bound[2]));
    if (pair.size() != 2) return TypeError("separators must be a pair");
    ASSIGN_OR_RETURN(const Text item, TextArgument(pair[0]));
    ASSIGN_OR_RETURN(const Text key, TextArgument(pair[1]));
    style.item_separator = std::string(item.bytes());
    style.key_separator = std::string(key.bytes());
  }
  style.sort_keys = TruthArgument(bound[3]);
  ASSIGN_OR_RETURN(Text text, ToJson(evaluator, self, style));
  return evaluator.MakeText(std::move(text));
}

constexpr NamedFilter kTextFilters[] = {
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"string", StringFilter},
    {"join", JoinFilter},
    {"upper", ChangedText<UpperText>},
    {"lower", ChangedText<LowerText>},
    {"replace", ReplaceFilter},
    {"indent", Indent},
    {"safe", Safe},
    {"escape", Escape},
    {"e", Escape},
    {"forceescape", ForceEscape},
    {"title", ChangedText<TitleWords>},
    {"capitalize", ChangedText<Capitalized>},
    {"center", Center},
    {"format", FormatFilter},
    {"truncate", Truncate},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

NativeFunction FindTextFilter(absl::string_view name) {
  return FindIn(kTextFilters, name);
}

}  // namespace plimsoll::worker::jinja
