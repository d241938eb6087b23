// The vocabulary in the order of its tokens' bytes, so that what is known of a
// prefix is known of all tokens that begin with it.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// Immutable, so thread-safe. Tokens that are never text are not in it: control,
// unknown and unused ones, those without bytes, and those that end generation.
// Memory: 10 bytes a token, and the bytes in which each differs from the one
// before it.
class TokenIndex {
 public:
  // `tokenizer` must outlive it.
  explicit TokenIndex(const Tokenizer& tokenizer);

  struct Entry {
    int32_t id;
    uint32_t n_shared;        // first bytes that the entry before has, too
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
  // one before it; size() if there is none.
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
  std::array<int64_t, 257> first_byte_ = {};  // where tokens begin with it
  uint32_t longest_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_
