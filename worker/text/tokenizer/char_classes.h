// The class of each code point in the expression of a pre-tokenizer.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {

// The ways in which the expressions of pre-tokenizers classify code points. The
// .cc file describes each alphabet.
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

// The classes of one alphabet, by PCRE2's Unicode tables. A block of 256 code
// points is looked up when one of its code points is first needed. A text needs
// few of the 4,352 blocks, and all blocks together take about 50 ms.
// Thread-safe.
class CharClasses {
 public:
  // A code point may be in many classes or in none. Letters are both kUpper and
  // kLower if an expression does not distinguish the cases.
  static constexpr uint8_t kUpper = 1;
  static constexpr uint8_t kLower = 2;
  static constexpr uint8_t kLetter = kUpper | kLower;  // one of them or both
  static constexpr uint8_t kSign = 4;
  static constexpr uint8_t kNumber = 8;
  static constexpr uint8_t kSpace = 16;  // Unicode's White_Space
  static constexpr uint8_t kEastAsian = 32;
  // Code points of these two classes are cut out of a text first, a few at a
  // time or as a whole run. They are in no other class.
  static constexpr uint8_t kCutSome = 64;
  static constexpr uint8_t kCutRun = 128;
  static constexpr uint8_t kCut = kCutSome | kCutRun;

  // Returns the process's table of the alphabet. The first call makes it.
  // Errors: kInternal if PCRE2 refuses our expressions.
  static absl::StatusOr<const CharClasses*> Get(Alphabet alphabet);

  // The classes of a code point up to kMaxCodePoint.
  uint8_t Of(uint32_t code_point) const {
    const uint8_t* block =
        blocks_[code_point / kBlock].load(std::memory_order_acquire);
    if (block == nullptr) block = Make(code_point / kBlock);
    return block[code_point % kBlock];
  }

 private:
  class Set;
  static constexpr uint32_t kBlock = 256;  // code points
  using Block = std::array<uint8_t, kBlock>;

  CharClasses();
  ~CharClasses();
  absl::Status Init(Alphabet alphabet);

  // Makes the n-th block, unless another thread has made it.
  const uint8_t* Make(uint32_t n) const;

  // By code point / kBlock; null if not yet made.
  mutable std::array<std::atomic<const uint8_t*>, (kMaxCodePoint + 1) / kBlock>
      blocks_ = {};
  mutable absl::Mutex mu_;
  std::vector<Set> sets_ ABSL_GUARDED_BY(mu_);
  mutable std::set<Block> made_ ABSL_GUARDED_BY(mu_);  // many blocks are equal
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_CHAR_CLASSES_H_
