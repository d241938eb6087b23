// Masks of the tokens of a vocabulary that are text of one kind, and the list
// of all other tokens.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_PLAIN_TOKENS_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_PLAIN_TOKENS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/text/plain_text.h"
#include "worker/text/tokenizer/token_list.h"

namespace plimsoll::worker {

// Immutable, so thread-safe. It takes 17 bits for each token, and for each
// token of others() an entry of a TokenList and 4 bytes.
class PlainTokens {
 public:
  // Tokens with more characters than this are not counted as text of the kind.
  static constexpr uint32_t kMaxChars = 16;

  // Places in a TokenList; the end is not included.
  struct Range {
    int64_t begin;
    int64_t end;
  };

  // `all` has the vocabulary's tokens of text, whose ids are below `n_vocab`.
  PlainTokens(PlainText::Kind kind, const TokenList& all, int64_t n_vocab);

  PlainText::Kind kind() const { return kind_; }
  // All tokens of the kind of at most `n_chars` characters, n_chars <=
  // kMaxChars: token i is bit i % 64 of word i / 64.
  std::span<const uint64_t> UpTo(uint32_t n_chars) const {
    return {bits_.data() + n_chars * n_words_, n_words_};
  }
  bool Has(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return (UpTo(kMaxChars)[at / 64] >> (at % 64) & 1) != 0;
  }
  // The number of tokens of the kind that begin with `byte`.
  int64_t CountByFirst(uint8_t byte) const { return by_first_[byte]; }

  // The tokens that begin like text of the kind, but are not of the kind or are
  // too long.
  const TokenList& others() const { return others_; }
  // The first entry of others() that is in `all` at `place` or after it.
  int64_t OtherFrom(int64_t place) const;
  // The tokens that do not begin like text of the kind, as ranges of `all`.
  std::span<const Range> rest() const { return rest_; }

  int64_t MemoryBytes() const;

 private:
  void AddOther(int32_t id, int64_t place, absl::string_view text,
                absl::string_view before);
  void AddRest(int64_t place);

  PlainText::Kind kind_;
  size_t n_words_;
  std::vector<uint64_t> bits_;  // [kMaxChars + 1, n_words]
  std::array<int64_t, 256> by_first_ = {};
  TokenList others_;
  std::vector<uint32_t> places_;  // places of the entries of others_ in `all`
  std::vector<Range> rest_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_PLAIN_TOKENS_H_
