// Python's functions on strings. All keep the taint of each character.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_STRINGS_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_STRINGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/jinja/text.h"

namespace plimsoll::worker::jinja {

// The first place of `wanted` in `bytes` from `from` on, in linear time.
std::optional<size_t> FindBytes(absl::string_view bytes,
                                absl::string_view wanted, size_t from);
// The last place of `wanted` in `bytes`.
std::optional<size_t> FindLastBytes(absl::string_view bytes,
                                    absl::string_view wanted);
int64_t CountBytes(absl::string_view bytes, absl::string_view wanted);

enum class Side { kLeft, kRight, kBoth };
// Removes characters that are in `set`, or white space, from the ends.
Text Strip(const Text& text, std::optional<absl::string_view> set, Side side);

// Cuts at most `most` times (negative: always): at runs of white space, or at
// `separator`, which is not empty; from the left or from the right.
std::vector<Text> SplitAtSpace(const Text& text, int64_t most);
std::vector<Text> SplitAtSpaceRight(const Text& text, int64_t most);
std::vector<Text> Split(const Text& text, absl::string_view separator,
                        int64_t most);
std::vector<Text> SplitRight(const Text& text, absl::string_view separator,
                             int64_t most);
std::vector<Text> SplitLines(const Text& text, bool keeps_ends);

// Replaces `old` by `fresh` at most `most` times (negative: always).
Text Replace(const Text& text, absl::string_view old, const Text& fresh,
             int64_t most);

// Replaces each character by the result of `change`.
Text Map(const Text& text,
         const std::function<std::string(absl::string_view)>& change);
Text UpperText(const Text& text);
Text LowerText(const Text& text);
Text Capitalized(const Text& text);
// str.title(): upper case behind characters without case.
Text TitleText(const Text& text);
// The filter `title`: upper case behind white space, '-' and opening brackets.
Text TitleWords(const Text& text);
Text SwappedCase(const Text& text);

// Adds `fill`, one character, up to `width` characters. `side` is the side of
// the text in the result; with kBoth the text is in the middle.
Text Padded(const Text& text, int64_t width, absl::string_view fill, Side side);
Text Joined(const std::vector<Text>& parts, const Text& separator);

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_STRINGS_H_
