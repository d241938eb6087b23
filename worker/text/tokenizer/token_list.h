// Tokens in the order of their bytes, each without the bytes that it shares
// with the token before it.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_LIST_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_LIST_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// It takes 12 bytes for each token, and the bytes in which each differs from
// the token before it. Immutable after Finish.
class TokenList {
 public:
  struct Entry {
    int32_t id;
    uint32_t n_shared;        // leading bytes shared with the entry before
    absl::string_view bytes;  // the rest
  };

  // Makes room for `n` entries.
  void Reserve(size_t n);
  // Adds an entry whose text begins with `n_shared` bytes of the one before.
  void Add(int32_t id, size_t n_shared, absl::string_view rest);
  // Must be called once, after the last Add.
  void Finish();

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int32_t Id(int64_t i) const { return ids_[static_cast<size_t>(i)]; }
  uint32_t Shared(int64_t i) const { return shared_[static_cast<size_t>(i)]; }
  Entry At(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return {ids_[at], shared_[at],
            absl::string_view(bytes_.data() + begins_[at],
                              begins_[at + 1] - begins_[at])};
  }
  // The first entry from `i` on that shares at most `n_shared` bytes with the
  // entry before it; size() if there is none.
  int64_t SkipTo(int64_t i, uint32_t n_shared) const {
    auto at = static_cast<size_t>(i);
    while (at < ids_.size() && shared_[at] > n_shared) at += steps_[at];
    return static_cast<int64_t>(at);
  }
  int64_t MemoryBytes() const;

 private:
  std::vector<int32_t> ids_;
  std::vector<uint16_t> shared_;  // VocabTable::kMaxTokenBytes fits
  // For each entry, the number of entries up to the next one that shares no
  // more bytes than this entry. Smaller if the number does not fit.
  std::vector<uint16_t> steps_;
  std::vector<uint32_t> begins_;  // [size + 1]; of bytes_
  std::vector<char> bytes_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_LIST_H_
