#include "worker/text/chat/marked_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {

MarkedText::MarkedText(const std::vector<ChatSegment>& segments) {
  for (const ChatSegment& segment : segments) {
    Append(segment.text, segment.is_scaffold ? kScaffold : kContent);
  }
}

MarkedText MarkedText::Slice(size_t begin, size_t end) const {
  MarkedText slice;
  slice.text_ = text_.substr(begin, end - begin);
  slice.kinds_ = kinds_.substr(begin, end - begin);
  return slice;
}

std::vector<ChatSegment> MarkedText::Segments(size_t begin, size_t end) const {
  std::vector<ChatSegment> segments;
  while (begin < end) {
    const size_t change =
        std::min(kinds_.find_first_not_of(kinds_[begin], begin), end);
    segments.push_back(
        {text_.substr(begin, change - begin), kinds_[begin] == kScaffold});
    begin = change;
  }
  return segments;
}

void MarkedText::Append(const MarkedText& more) {
  text_ += more.text_;
  kinds_ += more.kinds_;
}

void MarkedText::Append(absl::string_view text, char kind) {
  absl::StrAppend(&text_, text);
  kinds_.append(text.size(), kind);
}

bool MarkedText::HasAt(size_t at, const MarkedText& part) const {
  return at <= size() && text_.compare(at, part.size(), part.text_) == 0 &&
         kinds_.compare(at, part.size(), part.kinds_) == 0;
}

bool MarkedText::HasScaffoldAt(size_t at, absl::string_view part) const {
  if (at > size() || text().substr(at, part.size()) != part) return false;
  return std::all_of(kinds_.begin() + static_cast<ptrdiff_t>(at),
                     kinds_.begin() + static_cast<ptrdiff_t>(at + part.size()),
                     [](char kind) { return kind == kScaffold; });
}

size_t MarkedText::ContentEnd(size_t at) const {
  return std::min(kinds_.find_first_not_of(kContent, at), size());
}

}  // namespace plimsoll::worker
