#include "worker/text/jinja/string_methods.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/jinja/arguments.h"
#include "worker/text/jinja/characters.h"
#include "worker/text/jinja/format.h"
#include "worker/text/jinja/iteration.h"
#include "worker/text/jinja/operations.h"
#include "worker/text/jinja/printing.h"
#include "worker/text/jinja/strings.h"

namespace plimsoll::worker::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// Accounts for a walk over all of the text.
absl::Status SpendText(Evaluator& evaluator, const Value& self) {
  return evaluator.Spend(static_cast<int64_t>(self.text().size()) /
                         kBytesPerStep);
}

template <Text (*change)(const Text&)>
Result Changed(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("a method", arguments, 0, 0));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  return evaluator.MakeText(change(self.text()));
}

template <Side side>
Result StripMethod(Evaluator& evaluator, const Value& self,
                   Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("strip", arguments, 0, 1));
  if (arguments.positional.empty() || arguments.positional[0].is_none()) {
    return evaluator.MakeText(Strip(self.text(), std::nullopt, side));
  }
  ASSIGN_OR_RETURN(const Text set, TextArgument(arguments.positional[0]));
  return evaluator.MakeText(Strip(self.text(), set.bytes(), side));
}

Result ListOfTexts(Evaluator& evaluator, std::vector<Text> parts,
                   bool is_tuple = false) {
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(parts.size())));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& range : parts) items.emplace_back(std::move(range));
  return Value::MakeList(std::move(items), is_tuple);
}

template <bool is_right>
Result SplitMethod(Evaluator& evaluator, const Value& self,
                   Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("split", {"sep", "maxsplit"}, 0, std::move(arguments)));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  ASSIGN_OR_RETURN(const int64_t most, IntegerArgument(bound[1], -1));
  const Text& text = self.text();
  if (!bound[0] || bound[0]->is_none()) {
    return ListOfTexts(evaluator, is_right ? SplitAtSpaceRight(text, most)
                                           : SplitAtSpace(text, most));
  }
  ASSIGN_OR_RETURN(const Text separator, TextArgument(bound[0]));
  if (separator.size() == 0) return TypeError("empty separator");
  return ListOfTexts(evaluator, is_right
                                    ? SplitRight(text, separator.bytes(), most)
                                    : Split(text, separator.bytes(), most));
}

Result SplitLinesMethod(Evaluator& evaluator, const Value& self,
                        Arguments&& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   Bind("splitlines", {"keepends"}, 0, std::move(arguments)));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  return ListOfTexts(evaluator,
                     SplitLines(self.text(), TruthArgument(bound[0])));
}

// The part of the text that optional arguments `begin` and `end` choose, in
// characters; nothing if it begins behind the end.
struct TextRange {
  int64_t begin;
  Text text;
};
absl::StatusOr<std::optional<TextRange>> RangeOf(const Value& self,
                                                 const Arguments& arguments) {
  const Text& text = self.text();
  int64_t bounds[2] = {0, text.length()};
  for (size_t i = 0; i < 2; ++i) {
    if (arguments.positional.size() <= i + 1) continue;
    const Value& value = arguments.positional[i + 1];
    if (value.is_none()) continue;
    ASSIGN_OR_RETURN(int64_t bound, IntegerArgument(value, 0));
    if (bound < 0) bound = std::max<int64_t>(bound + text.length(), 0);
    if (i == 1) bound = std::min(bound, text.length());
    bounds[i] = bound;
  }
  if (bounds[0] > bounds[1]) return std::nullopt;
  return TextRange{bounds[0],
                   text.Slice(text.ByteOf(bounds[0]), text.ByteOf(bounds[1]))};
}

template <bool is_end>
Result HasAffix(Evaluator& evaluator, const Value& self,
                Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("startswith", arguments, 1, 3));
  ASSIGN_OR_RETURN(const auto range, RangeOf(self, arguments));
  const Value& wanted = arguments.positional[0];
  std::vector<Value> affixes = {wanted};
  if (wanted.is_list() && wanted.list().is_tuple) affixes = wanted.items();
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(affixes.size())));
  for (const Value& affix : affixes) {
    ASSIGN_OR_RETURN(const Text text, TextArgument(affix));
    if (!range) continue;
    if (is_end ? absl::EndsWith(range->text.bytes(), text.bytes())
               : absl::StartsWith(range->text.bytes(), text.bytes())) {
      return Value(true);
    }
  }
  return Value(false);
}

// The place of the argument in the text, in characters, or -1.
absl::StatusOr<int64_t> Find(Evaluator& evaluator, const Value& self,
                             const Arguments& arguments, bool is_last) {
  RETURN_IF_ERROR(ExpectPositional("find", arguments, 1, 3));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  ASSIGN_OR_RETURN(const auto range, RangeOf(self, arguments));
  ASSIGN_OR_RETURN(const Text wanted, TextArgument(arguments.positional[0]));
  if (!range) return -1;
  const absl::string_view bytes = range->text.bytes();
  const auto found = is_last ? FindLastBytes(bytes, wanted.bytes())
                             : FindBytes(bytes, wanted.bytes(), 0);
  if (!found) return -1;
  return range->begin + range->text.Slice(0, *found).length();
}

template <bool is_last, bool must_find>
Result FindMethod(Evaluator& evaluator, const Value& self,
                  Arguments&& arguments) {
  ASSIGN_OR_RETURN(const int64_t place,
                   Find(evaluator, self, arguments, is_last));
  if (must_find && place < 0) return TypeError("substring not found");
  return Value(place);
}

Result CountMethod(Evaluator& evaluator, const Value& self,
                   Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("count", arguments, 1, 3));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  ASSIGN_OR_RETURN(const auto range, RangeOf(self, arguments));
  ASSIGN_OR_RETURN(const Text wanted, TextArgument(arguments.positional[0]));
  if (!range) return Value(int64_t{0});
  if (wanted.size() == 0) return Value(range->text.length() + 1);
  return Value(CountBytes(range->text.bytes(), wanted.bytes()));
}

Result ReplaceMethod(Evaluator& evaluator, const Value& self,
                     Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("replace", arguments, 2, 3));
  arguments.positional.resize(3, Value(int64_t{-1}));
  ASSIGN_OR_RETURN(const Text old, TextArgument(arguments.positional[0]));
  ASSIGN_OR_RETURN(Text fresh, TextArgument(arguments.positional[1]));
  ASSIGN_OR_RETURN(const int64_t most,
                   IntegerArgument(arguments.positional[2], -1));
  if (self.text().is_markup() && !fresh.is_markup()) fresh = EscapeHtml(fresh);
  RETURN_IF_ERROR(CheckReplaced(evaluator, self.text(), old, fresh));
  return evaluator.MakeText(Replace(self.text(), old.bytes(), fresh, most));
}

Result JoinMethod(Evaluator& evaluator, const Value& self,
                  Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("join", arguments, 1, 1));
  ASSIGN_OR_RETURN(const std::vector<Value> items,
                   ToVector(evaluator, arguments.positional[0]));
  return JoinTexts(evaluator, items, self.text(), /*converts=*/false);
}

template <Side side>
Result PadMethod(Evaluator& evaluator, const Value& self,
                 Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("center", arguments, 1, 2));
  ASSIGN_OR_RETURN(const int64_t width,
                   IntegerArgument(arguments.positional[0], 0));
  arguments.positional.resize(2, Value::String(" "));
  ASSIGN_OR_RETURN(const Text fill, TextArgument(arguments.positional[1]));
  if (fill.length() != 1) {
    return TypeError("The fill character must be exactly one character long");
  }
  if (width > kMaxFieldWidth)
    return TypeError("a field is wider than the limit");
  return evaluator.MakeText(Padded(self.text(), width, fill.bytes(), side));
}

Result ZeroFill(Evaluator& evaluator, const Value& self,
                Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("zfill", arguments, 1, 1));
  ASSIGN_OR_RETURN(const int64_t width,
                   IntegerArgument(arguments.positional[0], 0));
  if (width > kMaxFieldWidth)
    return TypeError("a field is wider than the limit");
  const Text& text = self.text();
  const bool has_sign = absl::StartsWith(text.bytes(), "-") ||
                        absl::StartsWith(text.bytes(), "+");
  const size_t sign = has_sign ? 1 : 0;
  TextBuilder out;
  out.Append(text.Slice(0, sign));
  out.Append(Padded(text.Slice(sign, text.size()),
                    width - static_cast<int64_t>(sign), "0", Side::kRight));
  return evaluator.MakeText(out.Take());
}

template <bool is_last>
Result PartitionMethod(Evaluator& evaluator, const Value& self,
                       Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("partition", arguments, 1, 1));
  ASSIGN_OR_RETURN(const Text separator, TextArgument(arguments.positional[0]));
  if (separator.size() == 0) return TypeError("empty separator");
  const Text& text = self.text();
  const auto found = is_last ? FindLastBytes(text.bytes(), separator.bytes())
                             : FindBytes(text.bytes(), separator.bytes(), 0);
  std::vector<Text> parts = {text, Text(), Text()};
  if (!found && is_last) std::swap(parts[0], parts[2]);
  if (found) {
    const size_t end = *found + separator.size();
    parts = {text.Slice(0, *found), text.Slice(*found, end),
             text.Slice(end, text.size())};
  }
  return ListOfTexts(evaluator, std::move(parts), /*is_tuple=*/true);
}

template <bool is_suffix>
Result RemoveAffix(Evaluator& evaluator, const Value& self,
                   Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("removeprefix", arguments, 1, 1));
  ASSIGN_OR_RETURN(const Text affix, TextArgument(arguments.positional[0]));
  const Text& text = self.text();
  if (is_suffix && absl::EndsWith(text.bytes(), affix.bytes())) {
    return evaluator.MakeText(text.Slice(0, text.size() - affix.size()));
  }
  if (!is_suffix && absl::StartsWith(text.bytes(), affix.bytes())) {
    return evaluator.MakeText(text.Slice(affix.size(), text.size()));
  }
  return self;
}

template <CharacterKind... kinds>
Result AllAre(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("isalpha", arguments, 0, 0));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  bool are_all = self.text().size() > 0;
  ForEachCharacter(self.bytes(), [&are_all](absl::string_view character) {
    are_all &= (IsKind(character, kinds) || ...);
  });
  return Value(are_all);
}

Result AllAreSpace(Evaluator& evaluator, const Value& self,
                   Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("isspace", arguments, 0, 0));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  bool are_all = self.text().size() > 0;
  ForEachCharacter(self.bytes(), [&are_all](absl::string_view character) {
    are_all &= IsSpace(character);
  });
  return Value(are_all);
}

Result IsAsciiMethod(Evaluator&, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("isascii", arguments, 0, 0));
  return Value(self.text().is_ascii());
}

template <bool is_upper>
Result HasCase(Evaluator& evaluator, const Value& self, Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("isupper", arguments, 0, 0));
  RETURN_IF_ERROR(SpendText(evaluator, self));
  return Value(IsAllOfCase(self.text(), is_upper));
}

Result FormatMethod(Evaluator& evaluator, const Value& self,
                    Arguments&& arguments) {
  return FormatBraces(evaluator, self.text(), arguments);
}

Result FormatMapMethod(Evaluator& evaluator, const Value& self,
                       Arguments&& arguments) {
  RETURN_IF_ERROR(ExpectPositional("format_map", arguments, 1, 1));
  if (!arguments.positional[0].is_dict()) {
    return TypeError("format_map() needs a mapping");
  }
  Arguments named;
  for (const Dict::Pair& pair : arguments.positional[0].dict().pairs()) {
    if (!pair.first.is_string()) continue;
    named.named.emplace_back(pair.first.bytes(), pair.second);
  }
  return FormatBraces(evaluator, self.text(), named);
}

struct Method {
  absl::string_view name;
  NativeFunction function;
};
constexpr Method kMethods[] = {
    {"capitalize", Changed<Capitalized>},
    {"casefold", Changed<LowerText>},
    {"center", PadMethod<Side::kBoth>},
    {"count", CountMethod},
    {"endswith", HasAffix<true>},
    {"find", FindMethod<false, false>},
    {"format", FormatMethod},
    {"format_map", FormatMapMethod},
    {"index", FindMethod<false, true>},
    {"isalnum", AllAre<CharacterKind::kLetter, CharacterKind::kNumber>},
    {"isalpha", AllAre<CharacterKind::kLetter>},
    {"isascii", IsAsciiMethod},
    {"isdecimal", AllAre<CharacterKind::kDigit>},
    {"isdigit", AllAre<CharacterKind::kDigit>},
    {"islower", HasCase<false>},
    {"isnumeric", AllAre<CharacterKind::kNumber>},
    {"isspace", AllAreSpace},
    {"isupper", HasCase<true>},
    {"join", JoinMethod},
    {"ljust", PadMethod<Side::kLeft>},
    {"lower", Changed<LowerText>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"partition", PartitionMethod<false>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", ReplaceMethod},
    {"rfind", FindMethod<true, false>},
    {"rindex", FindMethod<true, true>},
    {"rjust", PadMethod<Side::kRight>},
    {"rpartition", PartitionMethod<true>},
    {"rsplit", SplitMethod<true>},
    {"rstrip", StripMethod<Side::kRight>},
    {"split", SplitMethod<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", HasAffix<false>},
    {"strip", StripMethod<Side::kBoth>},
    {"swapcase", Changed<SwappedCase>},
    {"title", Changed<TitleText>},
    {"upper", Changed<UpperText>},
    {"zfill", ZeroFill},
};

}  // namespace

absl::Status CheckReplaced(Evaluator& evaluator, const Text& text,
                           const Text& old, const Text& fresh) {
  const int64_t n = old.size() == 0 ? text.length() + 1
                                    : CountBytes(text.bytes(), old.bytes());
  const int64_t bytes = static_cast<int64_t>(text.size()) +
                        n * static_cast<int64_t>(fresh.size());
  return evaluator.Spend(n + bytes / kBytesPerStep);
}

absl::StatusOr<Value> JoinTexts(Evaluator& evaluator,
                                const std::vector<Value>& items,
                                const Text& separator, bool converts) {
  TextBuilder out;
  const bool is_markup = separator.is_markup() && !converts;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!converts && !is_markup && !items[i].is_string()) {
      return TypeError(absl::StrCat("sequence item ", i,
                                    ": expected str instance, ",
                                    items[i].TypeName(), " found"));
    }
    ASSIGN_OR_RETURN(const Text text, Str(evaluator, items[i]));
    const size_t bytes = text.size() + (i > 0 ? separator.size() : 0);
    RETURN_IF_ERROR(
        evaluator.Spend(static_cast<int64_t>(bytes) / kBytesPerStep));
    if (i > 0) out.Append(separator);
    const bool is_safe = items[i].is_string() && items[i].text().is_markup();
    out.Append(is_markup && !is_safe ? EscapeHtml(text) : text);
  }
  Text joined = out.Take();
  joined.set_markup(is_markup);
  return evaluator.MakeText(std::move(joined));
}

bool IsAllOfCase(const Text& text, bool is_upper) {
  bool has_cased = false;
  bool is_all = true;
  ForEachCharacter(text.bytes(), [&](absl::string_view character) {
    if (!IsCased(character)) return;
    has_cased = true;
    is_all &= (is_upper ? Lower(character) : Upper(character)) != character;
  });
  return has_cased && is_all;
}

NativeFunction FindStringMethod(absl::string_view name) {
  const auto found = std::lower_bound(
      std::begin(kMethods), std::end(kMethods), name,
      [](const Method& a, absl::string_view b) { return a.name < b; });
  if (found == std::end(kMethods) || found->name != name) return nullptr;
  return found->function;
}

}  // namespace plimsoll::worker::jinja
