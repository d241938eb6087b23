// UTF-8 for text that arrives in pieces, by Unicode's table 3-7.
#include "worker/text/utf8.h"

#include <cstddef>

namespace plimsoll::worker {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// True if `second` may follow `lead` (table 3-7): this excludes overlong forms,
// surrogates and code points above U+10FFFF.
bool IsSecondByte(unsigned char lead, unsigned char second) {
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  return second >= low && second <= high;
}

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

int Utf8Length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  if (lead < 0xF5) return 4;
  return 0;
}

Utf8Front ReadUtf8Front(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const int length = Utf8Length(lead);
  if (length == 0) return {Utf8Kind::kIllFormed, 1};
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) == text.size()) return {Utf8Kind::kCut, i};
    const auto byte = static_cast<unsigned char>(text[static_cast<size_t>(i)]);
    const bool fits = i == 1 ? IsSecondByte(lead, byte) : IsContinuation(byte);
    if (!fits) return {Utf8Kind::kIllFormed, i};
  }
  return {Utf8Kind::kWhole, length};
}

bool IsValidUtf8(absl::string_view text) {
  while (!text.empty()) {
    const Utf8Front front = ReadUtf8Front(text);
    if (front.kind != Utf8Kind::kWhole) return false;
    text.remove_prefix(static_cast<size_t>(front.bytes));
  }
  return true;
}

void Utf8Stream::Push(absl::string_view bytes, std::string& out) {
  held_.append(bytes.data(), bytes.size());
  absl::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Front front = ReadUtf8Front(rest);
    if (front.kind == Utf8Kind::kCut) break;
    const absl::string_view text =
        front.kind == Utf8Kind::kWhole
            ? rest.substr(0, static_cast<size_t>(front.bytes))
            : kReplacement;
    out.append(text.data(), text.size());
    rest.remove_prefix(static_cast<size_t>(front.bytes));
  }
  held_.erase(0, held_.size() - rest.size());
}

std::string Utf8Stream::Finish() {
  // The held bytes begin one code point: they are one maximal subsequence.
  std::string out;
  if (!held_.empty()) out.assign(kReplacement.data(), kReplacement.size());
  held_.clear();
  return out;
}

}  // namespace plimsoll::worker
