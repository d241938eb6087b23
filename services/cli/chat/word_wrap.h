// Wraps text at the width of a window while it streams.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_WORD_WRAP_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_WORD_WRAP_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::cli {

// The text may arrive in any pieces. A word is held back until a blank, a line
// feed or Flush shows that it is complete, so that printed text never changes.
// Wide glyphs are words of their own. A word that is longer than a line, and
// the lines of a block of code (``` or ~~~), are left to the terminal, so that
// they can be copied. Controls become '?', so that no text moves the cursor.
class WordWrap {
 public:
  // `width` is at least 1. The text begins at the first column.
  explicit WordWrap(int64_t width) : width_(width) {}

  // Sets the width of the window.
  void SetWidth(int64_t width) { width_ = width; }

  // Returns the text that can be printed now.
  std::string Push(absl::string_view text);
  // Returns the text that is held back. The word may continue afterwards.
  std::string Flush();
  // True if the last character printed was not a line feed.
  bool IsLineOpen() const { return column_ > 0; }

 private:
  void PushGlyph(char32_t code_point, absl::string_view bytes,
                 std::string& out);
  // Prints the word that is held, on the next line if it does not fit.
  void Place(std::string& out);
  void EndLine(std::string& out);
  // Prints without a break; the terminal wraps.
  void Print(absl::string_view text, int64_t columns, std::string& out);
  void NoteFence(absl::string_view word);

  int64_t width_;
  int64_t column_ = 0;  // the column of the cursor
  std::string blanks_;  // before the word
  int64_t blank_columns_ = 0;
  std::string word_;
  int64_t word_columns_ = 0;
  bool goes_on_ = false;          // the word's beginning is printed already
  bool is_joined_ = false;        // the last glyph joins the next one to itself
  char fence_ = 0;                // the fence of the open code block; 0 outside
  bool is_at_line_start_ = true;  // no word of this line is printed
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_WORD_WRAP_H_
