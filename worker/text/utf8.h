// UTF-8 for text that arrives in pieces: whole code points are passed on, and
// the rest is held back.
#ifndef PLIMSOLL_WORKER_TEXT_UTF8_H_
#define PLIMSOLL_WORKER_TEXT_UTF8_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// Bytes (1..4) of a code point that begins with the byte `lead`, or 0 if no
// code point does.
int Utf8Length(unsigned char lead);

// True if `text` is well-formed UTF-8 (Unicode table 3-7: no overlong forms, no
// surrogates, nothing above U+10FFFF).
bool IsValidUtf8(absl::string_view text);

// How a byte string begins.
enum class Utf8Kind {
  kWhole,      // one well-formed code point
  kCut,        // the string ends inside a code point
  kIllFormed,  // a maximal ill-formed subsequence (Unicode, chapter 3.9)
};
struct Utf8Front {
  Utf8Kind kind;
  int bytes;  // 1..4
};

// Looks at the front of `text`, which is not empty.
Utf8Front ReadUtf8Front(absl::string_view text);

// Turns a stream of byte pieces into valid UTF-8 text. A code point that is
// split between pieces is held back until whole; bytes that can never become
// one are replaced by U+FFFD (one per maximal ill-formed subsequence, as
// Unicode recommends). The concatenation of all output does not depend on the
// pieces.
class Utf8Stream {
 public:
  // Appends the text that is now complete to `out`.
  void Push(absl::string_view bytes, std::string& out);
  // Push that returns the text.
  std::string Push(absl::string_view bytes) {
    std::string out;
    Push(bytes, out);
    return out;
  }
  // Ends the stream; bytes that are still held become U+FFFD.
  std::string Finish();

 private:
  std::string held_;  // at most 3 bytes
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_UTF8_H_
