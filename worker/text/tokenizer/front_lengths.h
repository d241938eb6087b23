// How long a text can be that begins with two given bytes.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_FRONT_LENGTHS_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_FRONT_LENGTHS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// 8 KiB. Different beginnings may share a place, so an answer may be too large,
// never too small.
class FrontLengths {
 public:
  // `text` has two bytes at least and fewer than 2^16.
  void Add(absl::string_view text) {
    uint16_t& most = most_[PlaceOf(text)];
    most = std::max(most, static_cast<uint16_t>(text.size()));
  }
  // At least the bytes of each added text whose first two bytes are those of
  // `text`, which has as many; 0 if there is none.
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
