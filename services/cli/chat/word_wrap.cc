#include "services/cli/chat/word_wrap.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/cli/terminal/glyph_width.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kTabColumns = 8;
constexpr char32_t kZeroWidthJoiner = 0x200D;

// The character of the fence around code that a line's first word is; 0 if it
// is none.
char FenceOf(absl::string_view word) {
  for (const char fence : {'`', '~'}) {
    const size_t end = std::min(word.find_first_not_of(fence), word.size());
    const bool is_closed = word.find(fence, end) != absl::string_view::npos;
    if (end >= 3 && !is_closed) return fence;
  }
  return 0;
}

// True if `word` may become a fence.
bool MayBeFence(absl::string_view word) {
  return !word.empty() && word.size() < 3 &&
         word.find_first_not_of(word[0]) == absl::string_view::npos &&
         (word[0] == '`' || word[0] == '~');
}

}  // namespace

std::string WordWrap::Push(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const FrontGlyph glyph = FirstGlyph(text);
    PushGlyph(glyph.code_point, glyph.bytes, out);
    text.remove_prefix(glyph.bytes.size());
  }
  // The rest of a long word is not held back, nor is code.
  const bool may_end_code = is_at_line_start_ && MayBeFence(word_);
  if (goes_on_ || (fence_ != 0 && !may_end_code)) Place(out);
  return out;
}

std::string WordWrap::Flush() {
  std::string out;
  const bool has_word = !word_.empty();
  Place(out);
  goes_on_ |= has_word;
  return out;
}

void WordWrap::PushGlyph(char32_t code_point, absl::string_view bytes,
                         std::string& out) {
  if (code_point == '\n') return EndLine(out);
  if (code_point == '\r') return;
  if (code_point == ' ' || code_point == '\t') {
    Place(out);
    goes_on_ = false;
    absl::StrAppend(&blanks_, bytes);
    const int64_t at = column_ + blank_columns_;
    blank_columns_ += code_point == ' ' ? 1 : kTabColumns - at % kTabColumns;
    return;
  }
  if (IsControl(code_point)) {
    bytes = "?";
    code_point = '?';
  }
  const int64_t columns = is_joined_ ? 0 : GlyphColumns(code_point);
  is_joined_ = code_point == kZeroWidthJoiner;
  if (columns == 0 && word_.empty()) return Print(bytes, 0, out);
  if (columns > 1) Place(out);
  absl::StrAppend(&word_, bytes);
  word_columns_ += columns;
  if (columns > 1) {
    goes_on_ = false;
    Place(out);
  } else if (word_columns_ >= width_) {
    Place(out);
    goes_on_ = true;
  }
}

void WordWrap::Place(std::string& out) {
  if (word_.empty()) return;
  const int64_t columns = blank_columns_ + word_columns_;
  const bool breaks =
      !goes_on_ && fence_ == 0 && column_ > 0 && column_ + columns > width_;
  if (breaks) {
    out.push_back('\n');
    column_ = 0;
    Print(word_, word_columns_, out);
  } else {
    Print(blanks_, blank_columns_, out);
    Print(word_, word_columns_, out);
  }
  if (is_at_line_start_) NoteFence(word_);
  is_at_line_start_ = false;
  blanks_.clear();
  blank_columns_ = 0;
  word_.clear();
  word_columns_ = 0;
}

void WordWrap::EndLine(std::string& out) {
  Place(out);
  out.push_back('\n');
  column_ = 0;
  blanks_.clear();
  blank_columns_ = 0;
  goes_on_ = false;
  is_joined_ = false;
  is_at_line_start_ = true;
}

void WordWrap::Print(absl::string_view text, int64_t columns,
                     std::string& out) {
  absl::StrAppend(&out, text);
  column_ += columns;
  // The cursor stays behind the last column until the next glyph.
  if (column_ > width_) column_ = (column_ - 1) % width_ + 1;
}

void WordWrap::NoteFence(absl::string_view word) {
  const char fence = FenceOf(word);
  if (fence == 0) return;
  if (fence_ == 0) {
    fence_ = fence;
  } else if (fence == fence_) {
    fence_ = 0;
  }
}

}  // namespace plimsoll::cli
