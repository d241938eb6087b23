// The vocabulary sorted by its tokens' bytes. A result for a prefix then holds
// for all tokens that begin with it.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_

#include <cstdint>
#include <vector>

#include "worker/text/tokenizer/plain_tokens.h"
#include "worker/text/tokenizer/token_list.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// Immutable, so thread-safe. Tokens that are never text are left out: control,
// unknown and unused tokens, tokens without bytes, and tokens that end
// generation. It takes the memory of a TokenList and of PlainTokens.
class TokenIndex {
 public:
  // `tokenizer` must outlive it.
  explicit TokenIndex(const Tokenizer& tokenizer);

  using Entry = TokenList::Entry;

  const TokenList& list() const { return list_; }
  const PlainTokens& plain(PlainText::Kind kind) const { return plain_[kind]; }
  int64_t size() const { return list_.size(); }
  Entry At(int64_t i) const { return list_.At(i); }
  int64_t SkipTo(int64_t i, uint32_t n_shared) const {
    return list_.SkipTo(i, n_shared);
  }
  uint32_t longest_token_bytes() const { return longest_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  int64_t MemoryBytes() const;

 private:
  const Tokenizer& tokenizer_;
  TokenList list_;
  std::vector<PlainTokens> plain_;  // by kind
  uint32_t longest_ = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKEN_INDEX_H_
