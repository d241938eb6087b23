// Which code points are letters, numbers and white space.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace plimsoll::worker {

enum class CharClass : uint8_t {
  kOther,   // any other character
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // Unicode's White_Space
};

// The classes are those of PCRE2's Unicode tables. Immutable, so thread-safe.
class CharClasses {
 public:
  // The process has one table, which the first call makes: some 20 ms and 60
  // KiB.
  // Errors: kInternal if PCRE2 refuses our expressions.
  static absl::StatusOr<const CharClasses*> Get();

  // The class of a code point up to kMaxCodePoint.
  CharClass Of(uint32_t code_point) const {
    const size_t block = blocks_[code_point / kBlock];
    return classes_[block * kBlock + code_point % kBlock];
  }

 private:
  static constexpr size_t kBlock = 256;  // code points

  static absl::StatusOr<CharClasses> Make();
  void Append(const std::vector<CharClass>& block);

  std::vector<uint8_t> blocks_;     // by code point / kBlock
  std::vector<CharClass> classes_;  // classes of different blocks
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_
