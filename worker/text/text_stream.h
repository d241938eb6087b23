// Converts one stream's bytes to text that may be shown: whole code points,
// without text that may become a stop string.
#ifndef PLIMSOLL_WORKER_TEXT_TEXT_STREAM_H_
#define PLIMSOLL_WORKER_TEXT_TEXT_STREAM_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {

class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stop_strings)
      : stop_strings_(std::move(stop_strings)) {}

  // Takes the bytes of the next token and appends the text that is now certain.
  // When a stop string is complete, the text ends before it and stopped() is
  // true. Among several stop strings the one that ends first counts, and among
  // those that end together the longest, so that the result does not depend on
  // the pieces.
  void Push(absl::string_view bytes, std::string& out);
  // Push that returns the text.
  std::string Push(absl::string_view bytes) {
    std::string out;
    Push(bytes, out);
    return out;
  }
  // Appends the rest, at the end of the stream.
  void Finish(std::string& out);
  std::string Finish() {
    std::string out;
    Finish(out);
    return out;
  }

  bool stopped() const { return stopped_; }
  const std::string& stop_string() const { return stop_string_; }

 private:
  // Moves text that can no longer be a part of a stop string out of `pending_`.
  void Release(std::string& out);

  std::vector<std::string> stop_strings_;
  Utf8Stream utf8_;
  std::string pending_;  // shorter than the longest stop string
  bool stopped_ = false;
  std::string stop_string_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TEXT_STREAM_H_
