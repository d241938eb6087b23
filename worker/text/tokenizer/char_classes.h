// What each code point is to the expression of a pre-tokenizer.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace plimsoll::worker {

// How the expressions of pre-tokenizers class code points; see the .cc for
// each.
enum class Alphabet {
  kLetters,
  kLettersAndMarks,
  kCases,
  kCasesAndHan,
  kCutNumbers,
  kCutLines,
  kCutPunctuation,
  kDeepSeek3,
  kDeepSeekCoder,
  kDeepSeekLlm,
  kBloom,
  kViking,
};
inline constexpr size_t kAlphabets = 12;

// The classes of one alphabet, by PCRE2's Unicode tables. Immutable, so
// thread-safe.
class CharClasses {
 public:
  // A code point may be in many classes or in none. Letters are both kUpper and
  // kLower where an expression does not tell the cases apart.
  static constexpr uint8_t kUpper = 1;
  static constexpr uint8_t kLower = 2;
  static constexpr uint8_t kLetter = kUpper | kLower;  // one of them or both
  static constexpr uint8_t kSign = 4;
  static constexpr uint8_t kNumber = 8;
  static constexpr uint8_t kSpace = 16;  // Unicode's White_Space
  static constexpr uint8_t kEastAsian = 32;
  // These are cut out of a text before anything else is looked at, some at a
  // time or whole runs, and are in no other class.
  static constexpr uint8_t kCutSome = 64;
  static constexpr uint8_t kCutRun = 128;
  static constexpr uint8_t kCut = kCutSome | kCutRun;

  // The process has one table of each alphabet that it uses, which the first
  // call makes: some 50 ms and 60 KiB.
  // Errors: kInternal if PCRE2 refuses our expressions.
  static absl::StatusOr<const CharClasses*> Get(Alphabet alphabet);

  // The classes of a code point up to kMaxCodePoint.
  uint8_t Of(uint32_t code_point) const {
    const size_t block = blocks_[code_point / kBlock];
    return classes_[block * kBlock + code_point % kBlock];
  }

 private:
  static constexpr size_t kBlock = 256;  // code points

  static absl::StatusOr<CharClasses> Make(Alphabet alphabet);
  void Append(const std::vector<uint8_t>& block);

  std::vector<uint8_t> blocks_;   // by code point / kBlock
  std::vector<uint8_t> classes_;  // classes of different blocks
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_
