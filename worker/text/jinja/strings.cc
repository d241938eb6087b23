#include "worker/text/jinja/strings.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "worker/text/jinja/characters.h"

namespace plimsoll::worker::jinja {
namespace {

// Where the character in front of byte `end` begins.
size_t Before(absl::string_view bytes, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(bytes[end]) & 0xC0) == 0x80);
  return end;
}

// Where the character at byte `begin` ends.
size_t After(absl::string_view bytes, size_t begin) {
  do {
    ++begin;
  } while (begin < bytes.size() &&
           (static_cast<unsigned char>(bytes[begin]) & 0xC0) == 0x80);
  return begin;
}

bool IsSpaceAt(absl::string_view bytes, size_t begin) {
  return IsSpace(bytes.substr(begin, After(bytes, begin) - begin));
}

size_t SkipSpace(absl::string_view bytes, size_t at) {
  while (at < bytes.size() && IsSpaceAt(bytes, at)) at = After(bytes, at);
  return at;
}

size_t SkipSpaceBack(absl::string_view bytes, size_t end) {
  while (end > 0 && IsSpaceAt(bytes, Before(bytes, end))) {
    end = Before(bytes, end);
  }
  return end;
}

// The bytes of a line's end at `at`, or 0: what str.splitlines cuts at.
size_t LineEnd(absl::string_view bytes, size_t at) {
  if (bytes.substr(at, 2) == "\r\n") return 2;
  const char c = bytes[at];
  if ((c >= '\n' && c <= '\r') || (c >= '\x1C' && c <= '\x1E')) return 1;
  const absl::string_view rest = bytes.substr(at, 3);
  if (rest.substr(0, 2) == "\xC2\x85") return 2;
  return rest == "\xE2\x80\xA8" || rest == "\xE2\x80\xA9" ? 3 : 0;
}

constexpr absl::string_view kSigma = "\xCE\xA3";
constexpr absl::string_view kFinalSigma = "\xCF\x82";

// True if the sigma at `at` is the last letter of a word.
bool IsFinalSigma(absl::string_view bytes, size_t at) {
  const size_t next = After(bytes, at);
  const bool is_after = at > 0 && IsCased(bytes.substr(Before(bytes, at),
                                                       at - Before(bytes, at)));
  const bool is_before = next < bytes.size() &&
                         IsCased(bytes.substr(next, After(bytes, next) - next));
  return is_after && !is_before;
}

// Changes each character, given where it begins.
Text MapPlaces(
    const Text& text,
    const std::function<std::string(absl::string_view, size_t)>& change) {
  TextBuilder out;
  size_t at = 0;
  text.ForEachRun([&](absl::string_view run, bool is_tainted) {
    ForEachCharacter(run, [&](absl::string_view character) {
      out.Append(change(character, at), is_tainted);
      at += character.size();
    });
  });
  Text mapped = out.Take();
  mapped.set_markup(text.is_markup());
  return mapped;
}

std::string LowerAt(const Text& text, absl::string_view character, size_t at) {
  if (character == kSigma && IsFinalSigma(text.bytes(), at)) {
    return std::string(kFinalSigma);
  }
  return Lower(character);
}

}  // namespace

std::optional<size_t> FindBytes(absl::string_view bytes,
                                absl::string_view wanted, size_t from) {
  if (from > bytes.size()) return std::nullopt;
  if (wanted.empty()) return from;
  const void* found = memmem(bytes.data() + from, bytes.size() - from,
                             wanted.data(), wanted.size());
  if (found == nullptr) return std::nullopt;
  return static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
}

std::optional<size_t> FindLastBytes(absl::string_view bytes,
                                    absl::string_view wanted) {
  const std::string reversed(bytes.rbegin(), bytes.rend());
  const std::string reversed_wanted(wanted.rbegin(), wanted.rend());
  const auto found = FindBytes(reversed, reversed_wanted, 0);
  if (!found) return std::nullopt;
  return bytes.size() - *found - wanted.size();
}

int64_t CountBytes(absl::string_view bytes, absl::string_view wanted) {
  int64_t n = 0;
  auto found = FindBytes(bytes, wanted, 0);
  for (; found; found = FindBytes(bytes, wanted, *found + wanted.size())) ++n;
  return n;
}

Text Strip(const Text& text, std::optional<absl::string_view> set, Side side) {
  const absl::string_view bytes = text.bytes();
  const auto is_stripped = [&](size_t begin) {
    if (!set) return IsSpaceAt(bytes, begin);
    return set->find(bytes.substr(begin, After(bytes, begin) - begin)) !=
           absl::string_view::npos;
  };
  size_t begin = 0;
  size_t end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end && is_stripped(begin)) begin = After(bytes, begin);
  }
  if (side != Side::kLeft) {
    while (end > begin && is_stripped(Before(bytes, end))) {
      end = Before(bytes, end);
    }
  }
  return text.Slice(begin, end);
}

std::vector<Text> SplitAtSpace(const Text& text, int64_t most) {
  const absl::string_view bytes = text.bytes();
  std::vector<Text> parts;
  size_t at = SkipSpace(bytes, 0);
  while (at < bytes.size()) {
    if (most-- == 0) {
      parts.push_back(text.Slice(at, bytes.size()));
      break;
    }
    size_t end = at;
    while (end < bytes.size() && !IsSpaceAt(bytes, end)) {
      end = After(bytes, end);
    }
    parts.push_back(text.Slice(at, end));
    at = SkipSpace(bytes, end);
  }
  return parts;
}

std::vector<Text> SplitAtSpaceRight(const Text& text, int64_t most) {
  const absl::string_view bytes = text.bytes();
  std::vector<Text> parts;
  size_t end = SkipSpaceBack(bytes, bytes.size());
  while (end > 0) {
    if (most-- == 0) {
      parts.push_back(text.Slice(0, end));
      break;
    }
    size_t begin = end;
    while (begin > 0 && !IsSpaceAt(bytes, Before(bytes, begin))) {
      begin = Before(bytes, begin);
    }
    parts.push_back(text.Slice(begin, end));
    end = SkipSpaceBack(bytes, begin);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> Split(const Text& text, absl::string_view separator,
                        int64_t most) {
  std::vector<Text> parts;
  size_t at = 0;
  while (most-- != 0) {
    const auto found = FindBytes(text.bytes(), separator, at);
    if (!found) break;
    parts.push_back(text.Slice(at, *found));
    at = *found + separator.size();
  }
  parts.push_back(text.Slice(at, text.size()));
  return parts;
}

std::vector<Text> SplitRight(const Text& text, absl::string_view separator,
                             int64_t most) {
  // The places are those of a search from the right.
  const std::string reversed(text.bytes().rbegin(), text.bytes().rend());
  const std::string wanted(separator.rbegin(), separator.rend());
  std::vector<Text> parts;
  size_t at = 0;
  while (most-- != 0) {
    const auto found = FindBytes(reversed, wanted, at);
    if (!found) break;
    parts.push_back(text.Slice(text.size() - *found, text.size() - at));
    at = *found + wanted.size();
  }
  parts.push_back(text.Slice(0, text.size() - at));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> SplitLines(const Text& text, bool keeps_ends) {
  const absl::string_view bytes = text.bytes();
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t n = LineEnd(bytes, at);
    if (n > 0) {
      lines.push_back(text.Slice(begin, keeps_ends ? at + n : at));
      begin = at + n;
    }
    at += n > 0 ? n : 1;
  }
  if (begin < bytes.size()) lines.push_back(text.Slice(begin, bytes.size()));
  return lines;
}

Text Replace(const Text& text, absl::string_view old, const Text& fresh,
             int64_t most) {
  TextBuilder out;
  size_t at = 0;
  if (old.empty()) {  // between all characters
    while (most-- != 0) {
      out.Append(fresh);
      if (at == text.size()) break;
      const size_t end = After(text.bytes(), at);
      out.Append(text.Slice(at, end));
      at = end;
    }
  } else {
    while (most-- != 0) {
      const auto found = FindBytes(text.bytes(), old, at);
      if (!found) break;
      out.Append(text.Slice(at, *found));
      out.Append(fresh);
      at = *found + old.size();
    }
  }
  out.Append(text.Slice(at, text.size()));
  Text replaced = out.Take();
  replaced.set_markup(text.is_markup());
  return replaced;
}

Text Map(const Text& text,
         const std::function<std::string(absl::string_view)>& change) {
  return MapPlaces(text, [&change](absl::string_view character, size_t) {
    return change(character);
  });
}

Text UpperText(const Text& text) { return Map(text, Upper); }

Text LowerText(const Text& text) {
  return MapPlaces(text, [&text](absl::string_view character, size_t at) {
    return LowerAt(text, character, at);
  });
}

Text Capitalized(const Text& text) {
  return MapPlaces(text, [&text](absl::string_view character, size_t at) {
    return at == 0 ? Title(character) : LowerAt(text, character, at);
  });
}

Text TitleText(const Text& text) {
  bool is_in_word = false;
  return MapPlaces(text, [&](absl::string_view character, size_t at) {
    const bool was_in_word = std::exchange(is_in_word, IsCased(character));
    return was_in_word ? LowerAt(text, character, at) : Title(character);
  });
}

Text TitleWords(const Text& text) {
  constexpr absl::string_view kOpening = "-({[<";
  bool is_begin = true;
  return MapPlaces(text, [&](absl::string_view character, size_t at) {
    const bool was_begin = std::exchange(
        is_begin, IsSpace(character) ||
                      kOpening.find(character) != absl::string_view::npos);
    return was_begin ? Upper(character) : LowerAt(text, character, at);
  });
}

Text SwappedCase(const Text& text) {
  return MapPlaces(text, [&text](absl::string_view character, size_t at) {
    const std::string lower = LowerAt(text, character, at);
    return lower == character ? Upper(character) : lower;
  });
}

Text Padded(const Text& text, int64_t width, absl::string_view fill,
            Side side) {
  const int64_t missing = std::max<int64_t>(width - text.length(), 0);
  int64_t left = 0;
  if (side == Side::kRight) left = missing;
  // Python gives the odd one to the left if the width is odd.
  if (side == Side::kBoth) left = missing / 2 + (missing & width & 1);
  TextBuilder out;
  for (int64_t i = 0; i < left; ++i) out.Append(fill);
  out.Append(text);
  for (int64_t i = left; i < missing; ++i) out.Append(fill);
  Text padded = out.Take();
  padded.set_markup(text.is_markup());
  return padded;
}

Text Joined(const std::vector<Text>& parts, const Text& separator) {
  TextBuilder out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.Append(separator);
    out.Append(parts[i]);
  }
  return out.Take();
}

}  // namespace plimsoll::worker::jinja
