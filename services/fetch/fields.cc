#include "services/fetch/fields.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace plimsoll::fetch {
namespace {

constexpr size_t kMaxETagBytes = 512;

std::optional<int64_t> ParseSize(absl::string_view text) {
  int64_t value = 0;
  const bool is_decimal =
      !text.empty() && std::ranges::all_of(text, [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c));
      });
  if (!is_decimal || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '_';
}

// Takes name=value, where a value may be a quoted string with escapes.
bool TakeParameter(absl::string_view& text, std::string& name,
                   std::string& value) {
  size_t n = 0;
  while (n < text.size() && IsNameCharacter(text[n])) ++n;
  name = absl::AsciiStrToLower(text.substr(0, n));
  text.remove_prefix(n);
  value.clear();
  if (name.empty() || !absl::ConsumePrefix(&text, "=")) return false;
  if (!absl::ConsumePrefix(&text, "\"")) {
    n = std::min(text.find_first_of(", \t"), text.size());
    value = std::string(text.substr(0, n));
    text.remove_prefix(n);
    return !value.empty();
  }
  while (!text.empty() && text.front() != '"') {
    if (text.front() == '\\') text.remove_prefix(1);
    if (text.empty()) return false;
    value.push_back(text.front());
    text.remove_prefix(1);
  }
  return absl::ConsumePrefix(&text, "\"");
}

void SkipSeparators(absl::string_view& text) {
  const size_t n = std::min(text.find_first_not_of(", \t"), text.size());
  text.remove_prefix(n);
}

}  // namespace

absl::string_view ReplyHead::Field(absl::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (absl::EqualsIgnoreCase(key, name)) return value;
  }
  return "";
}

std::optional<int64_t> ReplyHead::Length() const {
  return ParseSize(Field("Content-Length"));
}

bool ReplyHead::IsRedirect() const {
  return (status == 301 || status == 302 || status == 303 || status == 307 ||
          status == 308) &&
         !Field("Location").empty();
}

std::optional<ContentRange> ParseContentRange(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() < 6 || !absl::EqualsIgnoreCase(text.substr(0, 6), "bytes ")) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text.substr(6), '/');
  if (parts.size() != 2) return std::nullopt;
  ContentRange range;
  if (parts[1] != "*") {
    range.total = ParseSize(parts[1]);
    if (!range.total.has_value()) return std::nullopt;
  }
  if (parts[0] == "*") {
    if (!range.total.has_value()) return std::nullopt;
    return range;
  }
  const std::vector<absl::string_view> ends = absl::StrSplit(parts[0], '-');
  if (ends.size() != 2) return std::nullopt;
  range.first = ParseSize(ends[0]);
  range.last = ParseSize(ends[1]);
  if (!range.first.has_value() || !range.last.has_value() ||
      *range.first > *range.last ||
      (range.total.has_value() && *range.last >= *range.total)) {
    return std::nullopt;
  }
  return range;
}

std::optional<BearerChallenge> ParseBearerChallenge(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() < 7 ||
      !absl::EqualsIgnoreCase(text.substr(0, 7), "Bearer ")) {
    return std::nullopt;
  }
  text.remove_prefix(7);
  BearerChallenge challenge;
  std::string name;
  std::string value;
  for (SkipSeparators(text); !text.empty(); SkipSeparators(text)) {
    if (!TakeParameter(text, name, value)) return std::nullopt;
    if (name == "realm") challenge.realm = value;
    if (name == "service") challenge.service = value;
    if (name == "scope") challenge.scope = value;
  }
  if (challenge.realm.empty()) return std::nullopt;
  return challenge;
}

std::string StrongETag(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const bool is_strong =
      text.size() > 2 && text.size() <= kMaxETagBytes && text.front() == '"' &&
      text.back() == '"' &&
      std::ranges::all_of(text.substr(1, text.size() - 2), [](char c) {
        return c > ' ' && c < 127 && c != '"';
      });
  return is_strong ? std::string(text) : "";
}

}  // namespace plimsoll::fetch
