// A string that knows which of its parts come from the template and which from
// a conversation.
#ifndef PLIMSOLL_WORKER_TEXT_JINJA_TEXT_H_
#define PLIMSOLL_WORKER_TEXT_JINJA_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::worker::jinja {

// Valid UTF-8 in runs, each of which is tainted (it comes from a conversation)
// or clean (it comes from the template). Runs begin at code points. Every
// operation on strings keeps the taint of each code point.
class Text {
 public:
  Text() = default;
  // Returns a text of one run. `bytes` must be valid UTF-8.
  explicit Text(std::string bytes, bool is_tainted = false);

  absl::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  int64_t length() const { return length_; }  // code points
  bool is_ascii() const { return static_cast<size_t>(length_) == size(); }
  // True for results of `safe` and `escape`, which need not be escaped again.
  bool is_markup() const { return is_markup_; }
  void set_markup(bool is_markup) { is_markup_ = is_markup; }

  // Returns the bytes [begin, end), which must begin and end at code points.
  Text Slice(size_t begin, size_t end) const;
  // Returns the offset in bytes of code point `index`, 0..length().
  size_t ByteOf(int64_t index) const;
  bool IsTainted(size_t byte) const;
  void Append(const Text& text);

  // Calls `use(run, is_tainted)` for each run in order.
  template <typename Use>
  void ForEachRun(const Use& use) const {
    size_t begin = 0;
    bool is_tainted = false;
    for (const uint32_t edge : edges_) {
      if (edge > begin) use(bytes().substr(begin, edge - begin), is_tainted);
      begin = edge;
      is_tainted = !is_tainted;
    }
    if (begin < size()) use(bytes().substr(begin), is_tainted);
  }

 private:
  friend class TextBuilder;

  // Appends bytes that are not empty, and does not count their characters.
  void AppendRun(absl::string_view bytes, bool is_tainted);

  std::string bytes_;
  // Offsets where the taint changes, ascending. Byte 0 is clean unless the
  // first edge is there.
  std::vector<uint32_t> edges_;
  int64_t length_ = 0;
  bool is_markup_ = false;
};

// Builds a text from pieces.
class TextBuilder {
 public:
  void Append(absl::string_view bytes, bool is_tainted = false);
  void Append(const Text& text) { text_.Append(text); }
  size_t size() const { return text_.size(); }
  Text Take() { return std::exchange(text_, Text()); }

 private:
  Text text_;
};

// Calls `use(code point's bytes)` for each code point of `bytes`.
template <typename Use>
void ForEachCharacter(absl::string_view bytes, const Use& use) {
  size_t begin = 0;
  while (begin < bytes.size()) {
    size_t end = begin + 1;
    while (end < bytes.size() &&
           (static_cast<unsigned char>(bytes[end]) & 0xC0) == 0x80) {
      ++end;
    }
    use(bytes.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace plimsoll::worker::jinja

#endif  // PLIMSOLL_WORKER_TEXT_JINJA_TEXT_H_
