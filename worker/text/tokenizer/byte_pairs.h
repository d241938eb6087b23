// A set of pairs of adjacent bytes.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_BYTE_PAIRS_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_BYTE_PAIRS_H_

#include <bitset>
#include <cstddef>

namespace plimsoll::worker {

// The set takes 8 KiB.
class BytePairs {
 public:
  void Add(char left, char right) { set_.set(PlaceOf(left, right)); }
  bool Has(char left, char right) const { return set_[PlaceOf(left, right)]; }

 private:
  static size_t PlaceOf(char left, char right) {
    return static_cast<unsigned char>(left) * size_t{256} +
           static_cast<unsigned char>(right);
  }
  std::bitset<65'536> set_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_BYTE_PAIRS_H_
