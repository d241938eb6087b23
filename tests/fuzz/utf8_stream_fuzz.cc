// Any bytes, cut anywhere, become the same valid text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status_macros.h"
#include "worker/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plimsoll::worker::IsValidUtf8;
  using plimsoll::worker::Utf8Stream;
  if (size == 0) return 0;
  // The first byte says how to cut the rest.
  const size_t step = size_t{data[0]} % 7 + 1;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);

  Utf8Stream whole;
  std::string expected = whole.Push(bytes);
  expected += whole.Finish();
  PLIMSOLL_CHECK(IsValidUtf8(expected), "output is valid UTF-8");
  if (IsValidUtf8(bytes)) {
    PLIMSOLL_CHECK(expected == bytes, "valid text passes unchanged");
  }

  Utf8Stream stream;
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += step) {
    const std::string piece = stream.Push(bytes.substr(i, step));
    PLIMSOLL_CHECK(IsValidUtf8(piece), "every piece is valid UTF-8");
    text += piece;
  }
  text += stream.Finish();
  PLIMSOLL_CHECK(text == expected, "cuts do not change the text");
  return 0;
}
