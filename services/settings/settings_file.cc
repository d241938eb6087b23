#include "services/settings/settings_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "services/server/small_file.h"
#include "worker/text/code_points.h"
#include "worker/text/utf8.h"

namespace plimsoll::services {
namespace {

constexpr char kByteOrderMark[] = "\xef\xbb\xbf";

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '_' || c == '+' || c == '.' || c == ':';
}

// Whether `word` is `digits` with at most single '_' between them.
bool IsDigits(absl::string_view word) {
  bool was_digit = false;
  for (const char c : word) {
    const bool is_digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    if (!is_digit && (c != '_' || !was_digit)) return false;
    was_digit = is_digit;
  }
  return was_digit;
}

// A number of TOML as flags take it; nothing for any other word, and for one
// that is too large.
std::optional<std::string> ParseNumber(absl::string_view word) {
  absl::string_view digits = word;
  if (!absl::ConsumePrefix(&digits, "-")) absl::ConsumePrefix(&digits, "+");
  if (digits == "inf" || digits == "nan") {
    return std::string(absl::StripPrefix(word, "+"));
  }
  const size_t whole_end = std::min(digits.find_first_of(".eE"), digits.size());
  const absl::string_view whole = digits.substr(0, whole_end);
  const bool has_zero_in_front = whole.size() > 1 && whole[0] == '0';
  if (!IsDigits(whole) || has_zero_in_front) return std::nullopt;
  const std::string text =
      absl::StrReplaceAll(absl::StripPrefix(word, "+"), {{"_", ""}});
  if (whole_end == digits.size()) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
    return absl::StrCat(number);
  }
  absl::string_view rest = digits.substr(whole_end);
  if (absl::ConsumePrefix(&rest, ".")) {
    const size_t end = std::min(rest.find_first_of("eE"), rest.size());
    if (!IsDigits(rest.substr(0, end))) return std::nullopt;
    rest.remove_prefix(end);
  }
  if (!rest.empty()) {
    rest.remove_prefix(1);  // the e
    if (!absl::ConsumePrefix(&rest, "-")) absl::ConsumePrefix(&rest, "+");
    if (!IsDigits(rest)) return std::nullopt;
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return std::nullopt;
  return NumberText(number);
}

// Reads a file from its beginning to its end, or to the first mistake.
class SettingsReader {
 public:
  SettingsReader(const std::string& path, absl::string_view text)
      : path_(path), text_(absl::StripPrefix(text, kByteOrderMark)) {}

  absl::StatusOr<SettingsFile> Read();

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  char Front() const { return text_[at_]; }
  bool AtLineEnd() const {
    return AtEnd() || Front() == '\n' ||
           absl::StartsWith(text_.substr(at_), "\r\n");
  }
  // Skips spaces on the line, and the comment at its end.
  void SkipBlank();
  // Skips to what is neither blank nor the end of a line.
  void SkipLines();
  bool Consume(char c);
  absl::string_view ReadWord();

  std::string Where() const { return absl::StrCat(path_, ":", line_); }
  absl::Status Mistake(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(Where(), ": ", what));
  }
  absl::Status BadValue(absl::string_view key) const;

  absl::Status ReadSection(SettingsFile& file);
  absl::Status ReadEntry(SettingsFile& file);
  absl::Status ReadValue(FileEntry& entry);
  absl::Status ReadList(FileEntry& entry);
  // A text or a number.
  absl::StatusOr<std::string> ReadSingle(const std::string& key);
  absl::StatusOr<std::string> ReadText();
  // What follows a backslash.
  absl::Status ReadEscape(std::string& text);

  const std::string path_;
  const absl::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
  std::optional<std::string> section_;              // the one being read
  std::map<std::string, std::string> places_ = {};  // by section and key
};

void SettingsReader::SkipBlank() {
  while (!AtEnd() && (Front() == ' ' || Front() == '\t')) ++at_;
  if (AtEnd() || Front() != '#') return;
  at_ = std::min(text_.find('\n', at_), text_.size());
}

void SettingsReader::SkipLines() {
  SkipBlank();
  while (!AtEnd() && AtLineEnd()) {
    at_ += Front() == '\n' ? 1 : 2;
    ++line_;
    SkipBlank();
  }
}

bool SettingsReader::Consume(char c) {
  if (AtEnd() || Front() != c) return false;
  ++at_;
  return true;
}

absl::string_view SettingsReader::ReadWord() {
  const size_t begin = at_;
  while (!AtEnd() && IsWordCharacter(Front())) ++at_;
  return text_.substr(begin, at_ - begin);
}

absl::Status SettingsReader::BadValue(absl::string_view key) const {
  return Mistake(absl::StrCat(
      ShownKey(key),
      " must be a text in quotes, a number, true or false, or a list of texts "
      "and numbers"));
}

absl::StatusOr<SettingsFile> SettingsReader::Read() {
  if (!worker::IsValidUtf8(text_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": is not text in UTF-8"));
  }
  SettingsFile file;
  for (SkipLines(); !AtEnd(); SkipLines()) {
    RETURN_IF_ERROR(Front() == '[' ? ReadSection(file) : ReadEntry(file));
    SkipBlank();
    if (!AtLineEnd()) return Mistake("one line has one section or one value");
  }
  return file;
}

absl::Status SettingsReader::ReadSection(SettingsFile& file) {
  Consume('[');
  const bool is_plain = !Consume('[');
  SkipBlank();
  const std::string name(ReadWord());
  SkipBlank();
  if (!is_plain || name.empty() || !Consume(']')) {
    return Mistake("a section begins with its name in brackets, as [worker]");
  }
  if (!absl::c_linear_search(kSections, name)) {
    return Mistake(
        absl::StrCat("there is no section [", ShownKey(name), "]",
                     DidYouMean(name, {kSections.begin(), kSections.end()})));
  }
  const auto [first, is_new] = places_.try_emplace(name, Where());
  if (!is_new) {
    return Mistake(
        absl::StrCat("[", name, "] is there already, at ", first->second));
  }
  section_ = name;
  file.sections[name];
  return absl::OkStatus();
}

absl::Status SettingsReader::ReadEntry(SettingsFile& file) {
  FileEntry entry = {.key = std::string(ReadWord()), .where = Where()};
  SkipBlank();
  if (entry.key.empty() || !Consume('=')) {
    return Mistake("a line is [SECTION], KEY = VALUE, or a comment after #");
  }
  if (!section_.has_value()) {
    return Mistake(absl::StrCat(
        ShownKey(entry.key), " stands outside of a section; put it below ",
        absl::StrJoin(kSections, " or ",
                      [](std::string* out, absl::string_view name) {
                        absl::StrAppend(out, "[", name, "]");
                      })));
  }
  const auto [first, is_new] =
      places_.try_emplace(absl::StrCat(*section_, ".", entry.key), Where());
  if (!is_new) {
    return Mistake(absl::StrCat(ShownKey(entry.key), " is there already, at ",
                                first->second));
  }
  SkipBlank();
  RETURN_IF_ERROR(ReadValue(entry));
  file.sections[*section_].push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status SettingsReader::ReadValue(FileEntry& entry) {
  if (Consume('[')) return ReadList(entry);
  const size_t begin = at_;
  const absl::string_view word = ReadWord();
  if (word == "true" || word == "false") {
    entry.kind = SettingKind::kSwitch;
    entry.values = {std::string(word)};
    return absl::OkStatus();
  }
  at_ = begin;
  ASSIGN_OR_RETURN(std::string value, ReadSingle(entry.key));
  entry.values = {std::move(value)};
  return absl::OkStatus();
}

absl::Status SettingsReader::ReadList(FileEntry& entry) {
  entry.kind = SettingKind::kList;
  for (SkipLines(); !Consume(']'); SkipLines()) {
    if (AtEnd()) {
      return Mistake(
          absl::StrCat("the list of ", ShownKey(entry.key), " has no end"));
    }
    ASSIGN_OR_RETURN(std::string value, ReadSingle(entry.key));
    entry.values.push_back(std::move(value));
    SkipLines();
    if (Consume(',') || (!AtEnd() && Front() == ']')) continue;
    return Mistake(absl::StrCat("the list of ", ShownKey(entry.key),
                                " has values with commas between them, and "
                                "ends with ]"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SettingsReader::ReadSingle(const std::string& key) {
  if (!AtEnd() && (Front() == '"' || Front() == '\'')) return ReadText();
  auto number = ParseNumber(ReadWord());
  if (!number.has_value()) return BadValue(key);
  return *std::move(number);
}

absl::StatusOr<std::string> SettingsReader::ReadText() {
  const char quote = Front();
  if (absl::StartsWith(text_.substr(at_), std::string(3, quote))) {
    return Mistake("a text has one line; \\n stands for its end in \"...\"");
  }
  ++at_;
  std::string text;
  while (!AtLineEnd()) {
    if (Consume(quote)) return text;
    if (quote == '"' && Consume('\\')) {
      RETURN_IF_ERROR(ReadEscape(text));
      continue;
    }
    const char c = Front();
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\t') {
      return Mistake("a text has control characters as \\u001B only");
    }
    text.push_back(c);
    ++at_;
  }
  return Mistake("a text ends with its quote on the same line");
}

absl::Status SettingsReader::ReadEscape(std::string& text) {
  constexpr absl::string_view kNames = "btnfr\"\\";
  constexpr absl::string_view kMeanings = "\b\t\n\f\r\"\\";
  const char name = AtEnd() ? '\0' : Front();
  const size_t known = kNames.find(name);
  if (known != kNames.npos) {
    text.push_back(kMeanings[known]);
    ++at_;
    return absl::OkStatus();
  }
  const size_t n_digits = name == 'u' ? 4 : 8;
  const absl::string_view digits =
      AtEnd() ? absl::string_view() : text_.substr(at_ + 1, n_digits);
  uint32_t code_point = 0;
  const bool is_whole = (name == 'u' || name == 'U') &&
                        digits.size() == n_digits &&
                        absl::c_all_of(digits, absl::ascii_isxdigit) &&
                        absl::SimpleHexAtoi(digits, &code_point);
  if (!is_whole || !worker::IsCharacter(code_point)) {
    return Mistake(
        "after \\ comes b, t, n, f, r, \", \\, or a code point, as u00E9; a "
        "text in '...' has no such signs");
  }
  worker::AppendUtf8(code_point, text);
  at_ += 1 + n_digits;
  return absl::OkStatus();
}

}  // namespace

std::string NumberText(double number) {
  std::array<char, 64> text = {};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number);
  return std::string(text.data(), end.ptr);
}

std::string ShownKey(absl::string_view key) {
  return absl::CHexEscape(key.substr(0, kMaxComparedBytes));
}

std::string DidYouMean(absl::string_view word,
                       const std::vector<absl::string_view>& names) {
  return absl::StrCat("; did you mean ", Nearest(word, names), "?");
}

absl::StatusOr<SettingsFile> ParseSettingsFile(const std::string& path,
                                               absl::string_view text) {
  return SettingsReader(path, text).Read();
}

absl::StatusOr<SettingsFile> ReadSettingsFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadSmallFile(path, kMaxSettingsBytes));
  return ParseSettingsFile(path, text);
}

}  // namespace plimsoll::services
