#include "worker/text/grammar/grammar_source.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "worker/text/code_points.h"
#include "worker/text/grammar/grammar.h"
#include "worker/text/grammar/grammar_builder.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

// Takes a count off `text`.
absl::StatusOr<int64_t> TakeCount(absl::string_view& text) {
  size_t n = 0;
  while (n < text.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[n]))) {
    ++n;
  }
  int64_t count = 0;
  if (n == 0) {
    return absl::InvalidArgumentError(
        "a count is expected: {m}, {m,} or {m,n}");
  }
  if (!absl::SimpleAtoi(text.substr(0, n), &count) ||
      count > Grammar::kMaxRepeat) {
    return absl::InvalidArgumentError(
        absl::StrCat("a count is more than ", Grammar::kMaxRepeat));
  }
  text.remove_prefix(n);
  return count;
}

}  // namespace

absl::Status CheckSourceSize(absl::string_view text) {
  if (text.size() <= Grammar::kMaxSourceBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it has ", text.size(), " bytes; at most ",
                   Grammar::kMaxSourceBytes, " are allowed"));
}

absl::Status CheckSource(absl::string_view text) {
  RETURN_IF_ERROR(CheckSourceSize(text));
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError("it is not UTF-8");
  }
  return absl::OkStatus();
}

absl::StatusOr<RepeatCounts> TakeRepeatCounts(absl::string_view& text) {
  ASSIGN_OR_RETURN(const int64_t min, TakeCount(text));
  int64_t max = min;
  if (absl::ConsumePrefix(&text, ",")) {
    max = GrammarBuilder::kUnlimited;
    if (!absl::StartsWith(text, "}")) {
      ASSIGN_OR_RETURN(max, TakeCount(text));
    }
  }
  if (!absl::ConsumePrefix(&text, "}")) {
    return absl::InvalidArgumentError("'}' is expected after a count");
  }
  if (max < min) {
    return absl::InvalidArgumentError("the counts of {m,n} are not in order");
  }
  return RepeatCounts{min, max};
}

absl::StatusOr<uint32_t> TakeHexEscape(size_t n_digits,
                                       absl::string_view& text) {
  const absl::string_view digits = text.substr(0, n_digits);
  const bool are_digits =
      digits.size() == n_digits &&
      std::all_of(digits.begin(), digits.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      });
  uint32_t value = 0;
  if (!are_digits || !absl::SimpleHexAtoi(digits, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an escape needs ", n_digits, " hex digits"));
  }
  text.remove_prefix(n_digits);
  if (!IsCharacter(value)) {
    return absl::InvalidArgumentError("an escape is no code point");
  }
  return value;
}

}  // namespace plimsoll::worker
