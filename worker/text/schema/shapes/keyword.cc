#include "worker/text/schema/shapes/keyword.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/schema/shapes/schema_options.h"

namespace plimsoll::worker {

absl::Status Keyword::Error(absl::string_view what) const {
  return SchemaError(index.PathOf(&schema), what);
}

absl::Status Keyword::Unsupported(absl::string_view what) const {
  return Error(absl::StrCat("the keyword '", name, "' is supported ", what));
}

absl::StatusOr<Decimal> Keyword::Number() const {
  const std::optional<Decimal> number = DecimalOf(value);
  if (number) return *number;
  return Error(absl::StrCat(name, " is not a number"));
}

absl::StatusOr<int64_t> Keyword::Count() const {
  const std::optional<Decimal> number = DecimalOf(value);
  if (number && number->is_integer() && !number->is_negative &&
      number->whole_digits() <= 9) {
    int64_t count = 0;
    for (int64_t i = number->whole_digits() - 1; i >= 0; --i) {
      count = count * 10 + (number->DigitAt(i) - '0');
    }
    const bool is_most = absl::StartsWith(name, "max");
    if (count <= Grammar::kMaxRepeat) return count;
    // So many are more than a reply can have.
    if (is_most && is_positive) return GrammarBuilder::kUnlimited;
  }
  return Error(
      absl::StrCat(name, " is not a count from 0 to ", Grammar::kMaxRepeat));
}

absl::StatusOr<std::vector<std::string>> Keyword::NamesIn(
    const SchemaJson& list) const {
  if (!list.is_array()) {
    return Error(absl::StrCat(name, " is not a list"));
  }
  std::vector<std::string> names;
  for (const SchemaJson& one : list) {
    if (!one.is_string()) {
      return Error(absl::StrCat(name, " is not a list of names"));
    }
    names.push_back(one.get<std::string>());
    if (names.back().size() > kMaxPropertyBytes) {
      return Error(absl::StrCat("the name of a property has more than ",
                                kMaxPropertyBytes, " bytes"));
    }
  }
  return names;
}

std::optional<Decimal> DecimalOf(const SchemaJson& value) {
  if (!value.is_number()) return std::nullopt;
  return ParseDecimal(value.dump());
}

}  // namespace plimsoll::worker
