#include "worker/text/jinja/text.h"

#include <algorithm>

namespace plimsoll::worker::jinja {
namespace {

bool IsLead(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

int64_t CountCharacters(absl::string_view bytes) {
  int64_t n = 0;
  for (const char c : bytes) n += IsLead(c) ? 1 : 0;
  return n;
}

}  // namespace

Text::Text(std::string bytes, bool is_tainted)
    : bytes_(std::move(bytes)), length_(CountCharacters(bytes_)) {
  if (is_tainted && !bytes_.empty()) edges_.push_back(0);
}

Text Text::Slice(size_t begin, size_t end) const {
  Text part;
  part.bytes_ = bytes_.substr(begin, end - begin);
  part.length_ = is_ascii() ? static_cast<int64_t>(part.bytes_.size())
                            : CountCharacters(part.bytes_);
  part.is_markup_ = is_markup_;
  if (part.bytes_.empty() || edges_.empty()) return part;
  const auto after = std::upper_bound(edges_.begin(), edges_.end(), begin);
  if ((after - edges_.begin()) % 2 == 1) part.edges_.push_back(0);
  for (auto edge = after; edge != edges_.end() && *edge < end; ++edge) {
    part.edges_.push_back(static_cast<uint32_t>(*edge - begin));
  }
  return part;
}

size_t Text::ByteOf(int64_t index) const {
  if (is_ascii()) return static_cast<size_t>(index);
  size_t at = 0;
  for (int64_t n = 0; at < size(); ++at) {
    if (IsLead(bytes_[at]) && n++ == index) break;
  }
  return at;
}

bool Text::IsTainted(size_t byte) const {
  const auto after = std::upper_bound(edges_.begin(), edges_.end(), byte);
  return (after - edges_.begin()) % 2 == 1;
}

void Text::Append(const Text& text) {
  text.ForEachRun([this](absl::string_view run, bool is_tainted) {
    AppendRun(run, is_tainted);
  });
  length_ += text.length_;
}

void Text::AppendRun(absl::string_view bytes, bool is_tainted) {
  const bool is_last_tainted = edges_.size() % 2 == 1;
  if (is_tainted != is_last_tainted) {
    edges_.push_back(static_cast<uint32_t>(size()));
  }
  bytes_.append(bytes.data(), bytes.size());
}

void TextBuilder::Append(absl::string_view bytes, bool is_tainted) {
  if (bytes.empty()) return;
  text_.AppendRun(bytes, is_tainted);
  text_.length_ += CountCharacters(bytes);
}

}  // namespace plimsoll::worker::jinja
