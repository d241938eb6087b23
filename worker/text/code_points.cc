#include "worker/text/code_points.h"

#include <algorithm>

#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

constexpr CodePointRange kSurrogates = {0xD800, 0xDFFF};
// The last code points of one, two, three and four bytes.
constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kMaxCodePoint};

// Adds the sequences of a range whose ends have equally many bytes: it is cut
// until, below the first byte in which its ends differ, it holds every byte.
void AddRange(CodePointRange range, std::vector<ByteSequence>& out) {
  std::vector<CodePointRange> left = {range};
  while (!left.empty()) {
    const auto [first, last] = left.back();
    left.pop_back();
    bool is_whole = true;
    for (int i = 1; i < 4 && is_whole; ++i) {
      const uint32_t low = (uint32_t{1} << (6 * i)) - 1;
      if ((first & ~low) == (last & ~low)) continue;
      if ((first & low) != 0) {
        left.push_back({(first | low) + 1, last});
        left.push_back({first, first | low});
        is_whole = false;
      } else if ((last & low) != low) {
        left.push_back({last & ~low, last});
        left.push_back({first, (last & ~low) - 1});
        is_whole = false;
      }
    }
    if (!is_whole) continue;
    std::string low;
    std::string high;
    AppendUtf8(first, low);
    AppendUtf8(last, high);
    ByteSequence& sequence = out.emplace_back();
    for (size_t i = 0; i < low.size(); ++i) {
      sequence.push_back(
          {static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
    }
  }
}

}  // namespace

CodePoints Normalized(const CodePoints& set) {
  CodePoints cut;
  for (CodePointRange range : set) {
    range.last = std::min(range.last, kMaxCodePoint);
    if (range.first < kSurrogates.first) {
      cut.push_back({range.first, std::min(range.last, kSurrogates.first - 1)});
    }
    if (range.last > kSurrogates.last) {
      cut.push_back({std::max(range.first, kSurrogates.last + 1), range.last});
    }
  }
  std::erase_if(cut, [](const CodePointRange& r) { return r.first > r.last; });
  std::sort(cut.begin(), cut.end(),
            [](const CodePointRange& a, const CodePointRange& b) {
              return a.first < b.first;
            });
  CodePoints merged;
  for (const CodePointRange& range : cut) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

CodePoints Complement(const CodePoints& set) {
  CodePoints rest;
  uint32_t next = 0;
  for (const CodePointRange& range : Normalized(set)) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) rest.push_back({next, kMaxCodePoint});
  return Normalized(rest);
}

CodePoints Intersection(const CodePoints& a, const CodePoints& b) {
  CodePoints outside = Complement(a);
  const CodePoints outside_b = Complement(b);
  outside.insert(outside.end(), outside_b.begin(), outside_b.end());
  return Complement(outside);
}

std::optional<uint32_t> TakeCodePoint(absl::string_view& text) {
  const Utf8Front front = ReadUtf8Front(text);
  if (front.kind != Utf8Kind::kWhole) return std::nullopt;
  const auto byte = [&text](int i) {
    return static_cast<uint32_t>(
        static_cast<unsigned char>(text[static_cast<size_t>(i)]));
  };
  constexpr uint32_t kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t code_point = byte(0) & kLeadBits[front.bytes];
  for (int i = 1; i < front.bytes; ++i) {
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  text.remove_prefix(static_cast<size_t>(front.bytes));
  return code_point;
}

bool IsPythonSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  const auto add = [&out](uint32_t byte) {
    out.push_back(static_cast<char>(byte));
  };
  if (code_point <= kLastOfLength[0]) {
    add(code_point);
    return;
  }
  int n_more = 1;
  while (code_point > kLastOfLength[n_more]) ++n_more;
  constexpr uint32_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  add(kLeads[n_more] | code_point >> (6 * n_more));
  while (n_more-- > 0) add(0x80 | (code_point >> (6 * n_more) & 0x3F));
}

std::vector<ByteSequence> Utf8Sequences(const CodePoints& set) {
  std::vector<ByteSequence> out;
  for (const CodePointRange& range : Normalized(set)) {
    uint32_t first = range.first;
    for (const uint32_t last : kLastOfLength) {
      if (first > last) continue;
      AddRange({first, std::min(last, range.last)}, out);
      if (range.last <= last) break;
      first = last + 1;
    }
  }
  return out;
}

}  // namespace plimsoll::worker
