// Plain text: the characters of nearly all tokens, which most strings of a
// grammar allow. Words are a kind of plain text.
#ifndef PLIMSOLL_WORKER_TEXT_PLAIN_TEXT_H_
#define PLIMSOLL_WORKER_TEXT_PLAIN_TEXT_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"

namespace plimsoll::worker {

// A text is of a kind if each of its characters is of that kind.
//
// Plain characters are all characters of well-formed UTF-8 (Unicode table 3-7)
// except control characters (below U+0020), '"' and '\', which end a JSON
// string or need an escape, and '<', which begins the marks of many models.
// Characters of words are the letters and digits of ASCII, which most patterns
// take.
class PlainText {
 public:
  enum Kind : uint8_t { kPlain, kWord };
  static constexpr size_t kKinds = 2;

  // The place of a text's end within a character.
  enum Position : uint8_t {
    kStart,      // between two characters
    kOneMore,    // before the last byte
    kTwoMore,    // before two bytes of any value
    kThreeMore,  // before three bytes of any value
    kAfterE0,    // the next byte has a smaller range, as in the next positions
    kAfterED,
    kAfterF0,
    kAfterF4,
    kOutside,  // the text is not of the kind
  };
  static constexpr size_t kPositions = kOutside;

  // The position after `byte`.
  static Position After(Kind kind, Position at, uint8_t byte) {
    if (kind == kWord) {
      return at == kStart && absl::ascii_isalnum(byte) ? kStart : kOutside;
    }
    return AfterPlain(at, byte);
  }

 private:
  static constexpr Position AfterPlain(Position at, uint8_t byte) {
    if (at == kStart) return AfterLead(byte);
    if (at == kOutside || byte < First(at) || byte > Last(at)) {
      return kOutside;
    }
    switch (at) {
      case kOneMore:
        return kStart;
      case kTwoMore:
      case kAfterE0:
      case kAfterED:
        return kOneMore;
      default:
        return kTwoMore;
    }
  }
  static constexpr Position AfterLead(uint8_t byte) {
    if (byte < 0x80) {
      const bool is_plain =
          byte >= 0x20 && byte != '"' && byte != '\\' && byte != '<';
      return is_plain ? kStart : kOutside;
    }
    if (byte < 0xC2 || byte > 0xF4) return kOutside;
    if (byte < 0xE0) return kOneMore;
    if (byte == 0xE0) return kAfterE0;
    if (byte == 0xED) return kAfterED;
    if (byte < 0xF0) return kTwoMore;
    if (byte == 0xF0) return kAfterF0;
    return byte < 0xF4 ? kThreeMore : kAfterF4;
  }
  static constexpr uint8_t First(Position at) {
    if (at == kAfterE0) return 0xA0;
    return at == kAfterF0 ? 0x90 : 0x80;
  }
  static constexpr uint8_t Last(Position at) {
    if (at == kAfterED) return 0x9F;
    return at == kAfterF4 ? 0x8F : 0xBF;
  }
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_PLAIN_TEXT_H_
