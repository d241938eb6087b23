// A rendered conversation as one text, each byte of which is scaffold or
// content.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_MARKED_TEXT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_MARKED_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/chat/chat_template.h"

namespace plimsoll::worker {

// Takes two bytes for each byte of text.
class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(const std::vector<ChatSegment>& segments);

  absl::string_view text() const { return text_; }
  size_t size() const { return text_.size(); }

  // The bytes [begin, end). Requires begin <= end <= size().
  MarkedText Slice(size_t begin, size_t end) const;
  // Returns the bytes [begin, end) as segments.
  std::vector<ChatSegment> Segments(size_t begin, size_t end) const;
  void Append(const MarkedText& more);
  void AppendScaffold(absl::string_view text) { Append(text, kScaffold); }
  void AppendContent(absl::string_view text) { Append(text, kContent); }

  // True if `part` stands at `at`, of the same kinds.
  bool HasAt(size_t at, const MarkedText& part) const;
  bool HasScaffoldAt(size_t at, absl::string_view part) const;
  // The end of the content that begins at `at`; `at` itself if there is
  // scaffold or nothing.
  size_t ContentEnd(size_t at) const;

  friend bool operator==(const MarkedText&, const MarkedText&) = default;

 private:
  static constexpr char kScaffold = 's';
  static constexpr char kContent = 'c';

  void Append(absl::string_view text, char kind);

  std::string text_;
  std::string kinds_;  // kind of each byte
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_MARKED_TEXT_H_
