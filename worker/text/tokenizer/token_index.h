// The vocabulary sorted by its tokens' bytes, so that what holds for a prefix
// holds for all tokens that begin with it.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// Immutable, so thread-safe. Tokens that are never text are left out: control,
// unknown and unused tokens, tokens without bytes, and tokens that end
// generation. It takes 10 bytes for each token, and the bytes in which each
// differs from the token before it.
class TokenIndex {
 public:
  // `tokenizer` must outlive it.
  explicit TokenIndex(const Tokenizer& tokenizer);

  struct Entry {
    int32_t id;
    uint32_t n_shared;        // leading bytes that the entry before has too
    absl::string_view bytes;  // the rest
  };

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  Entry At(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return {ids_[at], shared_[at],
            absl::string_view(bytes_.data() + begins_[at],
                              begins_[at + 1] - begins_[at])};
  }
  // The first entry from `i` on that shares at most `n_shared` bytes with the
  // entry before it; size() if there is none.
  int64_t SkipTo(int64_t i, uint32_t n_shared) const;
  uint32_t longest_token_bytes() const { return longest_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t MemoryBytes() const;

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;
  std::vector<uint16_t> shared_;  // VocabTable::kMaxTokenBytes fits
  std::vector<uint32_t> begins_;  // [size + 1]; of bytes_
  std::vector<char> bytes_;
  std::array<int64_t, 257> first_byte_ = {};  // tokens of a byte begin there
  uint32_t longest_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_
