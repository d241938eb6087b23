// Roles and white space of chat formats.
#include "worker/text/chat/chat_segments.h"

#include <cstddef>
#include <cstdint>

#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

uint32_t CodePoint(absl::string_view bytes) {
  constexpr uint32_t kLeadMask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t value =
      static_cast<unsigned char>(bytes[0]) & kLeadMask[bytes.size()];
  for (const char c : bytes.substr(1)) {
    value = (value << 6) | (static_cast<unsigned char>(c) & 0x3F);
  }
  return value;
}

// True for what the templates' own `trim` removes: Python's str.isspace.
bool IsTrimmed(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace

absl::string_view RoleName(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
    case ChatRole::kTool:
      return "tool";
  }
  return "";
}

absl::string_view TrimChat(absl::string_view text) {
  while (!text.empty()) {
    const Utf8Front front = ReadUtf8Front(text);
    const auto bytes = static_cast<size_t>(front.bytes);
    if (front.kind != Utf8Kind::kWhole) break;
    if (!IsTrimmed(CodePoint(text.substr(0, bytes)))) break;
    text.remove_prefix(bytes);
  }
  while (!text.empty()) {
    // The last code point begins at most 3 bytes (of these characters) back.
    size_t bytes = 1;
    while (bytes < 3 && bytes < text.size() &&
           (text[text.size() - bytes] & 0xC0) == 0x80) {
      ++bytes;
    }
    const absl::string_view last = text.substr(text.size() - bytes);
    const Utf8Front front = ReadUtf8Front(last);
    if (front.kind != Utf8Kind::kWhole) break;
    if (static_cast<size_t>(front.bytes) != bytes) break;
    if (!IsTrimmed(CodePoint(last))) break;
    text.remove_suffix(bytes);
  }
  return text;
}

}  // namespace plimsoll::worker
