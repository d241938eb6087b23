// Sets of Unicode code points, and how UTF-8 spells them byte by byte.
#ifndef PLIMSOLL_WORKER_TEXT_CODE_POINTS_H_
#define PLIMSOLL_WORKER_TEXT_CODE_POINTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// True for a code point that a text can have: surrogates are none.
constexpr bool IsCharacter(int64_t value) {
  return value >= 0 && value <= kMaxCodePoint &&
         (value < 0xD800 || value > 0xDFFF);
}

// A range of code points; both ends are included.
struct CodePointRange {
  uint32_t first;
  uint32_t last;
};
using CodePoints = std::vector<CodePointRange>;

// Returns the set as ranges in ascending order that neither touch nor overlap,
// without surrogates and code points above kMaxCodePoint.
CodePoints Normalized(const CodePoints& set);
// Returns all code points that are not in `set`, normalized.
CodePoints Complement(const CodePoints& set);
CodePoints Intersection(const CodePoints& a, const CodePoints& b);

// Removes the first code point from `text`, which is not empty, and returns it.
// Returns nothing if `text` begins with ill-formed UTF-8.
std::optional<uint32_t> TakeCodePoint(absl::string_view& text);
// True for the code points that Python's str.isspace accepts: templates trim
// these.
bool IsPythonSpace(uint32_t code_point);
// Appends the UTF-8 form of `code_point`, which must not be a surrogate.
void AppendUtf8(uint32_t code_point, std::string& out);

struct ByteRange {
  uint8_t first;
  uint8_t last;
  friend auto operator<=>(const ByteRange&, const ByteRange&) = default;
};
// One to four ranges. One byte from each range, in order, is a code point.
using ByteSequence = std::vector<ByteRange>;

// The sequences that together spell the code points of `set` and no others.
std::vector<ByteSequence> Utf8Sequences(const CodePoints& set);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CODE_POINTS_H_
