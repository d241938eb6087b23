// The largest length of a text that begins with two given bytes.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_FRONT_LENGTHS_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_FRONT_LENGTHS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// The table takes 8 KiB. Different beginnings may share a place, so an answer
// may be too large, but never too small.
class FrontLengths {
 public:
  // Adds `text`, which has at least two bytes and fewer than 2^16.
  void Add(absl::string_view text) {
    uint16_t& most = most_[PlaceOf(text)];
    most = std::max(most, static_cast<uint16_t>(text.size()));
  }
  // At least the length of each added text that begins with the first two bytes
  // of `text`; 0 if there is none. `text` has two bytes or more.
  size_t Most(absl::string_view text) const { return most_[PlaceOf(text)]; }

 private:
  static size_t PlaceOf(absl::string_view text) {
    return (static_cast<unsigned char>(text[0]) * size_t{61} +
            static_cast<unsigned char>(text[1])) %
           4'096;
  }
  std::array<uint16_t, 4'096> most_ = {};
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_FRONT_LENGTHS_H_
