// Special tokens: finds them in text, and reads which ids a file's metadata
// gives a role.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_SPECIAL_TOKENS_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_SPECIAL_TOKENS_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "worker/text/stop_counter.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::worker {

// A part of a text: one special token, or raw text still to be tokenised.
struct TextFragment {
  static constexpr int32_t kRaw = -1;
  uint32_t begin;  // byte offset
  uint32_t bytes;  // > 0
  int32_t id;      // id of the special token, or kRaw
};

// Finds special tokens. Immutable, so thread-safe. Every call gets the
// vocabulary, which must be the one that Build got.
class SpecialTokens {
 public:
  // Bytes of one special token.
  static constexpr int64_t kMaxSpecialBytes = 256;

  // Errors: kInvalidArgument for a control, user-defined or unknown token
  // longer than kMaxSpecialBytes.
  static absl::StatusOr<SpecialTokens> Build(const VocabTable& vocab);

  // Cuts `text` (shorter than 4 GiB) into fragments, in order. Candidates are
  // user-defined tokens and, with `parse_special`, control and unknown tokens.
  // They are taken longest first over the whole text (equal lengths: lowest id
  // first), each at all its occurrences from left to right that do not overlap
  // an occurrence taken before. This is not the same as leftmost-longest.
  // Errors: those of `stop`.
  absl::StatusOr<std::vector<TextFragment>> Split(const VocabTable& vocab,
                                                  absl::string_view text,
                                                  bool parse_special,
                                                  StopCounter& stop) const;
  int64_t MemoryBytes() const;

 private:
  static constexpr int32_t kNone = -1;
  struct Search;

  void AddPrefix(absl::string_view text, bool is_user_defined);
  void Sort(const VocabTable& vocab);
  void MarkOverlaps(const VocabTable& vocab);
  // The place in `sorted_` of the longest candidate that `text` begins with, or
  // kNone.
  int32_t Longest(const VocabTable& vocab, absl::string_view text,
                  bool parse_special) const;
  // The longest candidate of at most `most` bytes among the one at `at` and the
  // candidates that it begins with, or kNone.
  int32_t Shorten(const VocabTable& vocab, int32_t at, size_t most,
                  bool parse_special) const;
  absl::Status TakeLength(const VocabTable& vocab, size_t bytes,
                          Search& search) const;

  // Tokens that text may become, sorted by their bytes.
  std::vector<int32_t> sorted_;
  // For each place in `sorted_`: the longest other token that it begins with,
  // or kNone.
  std::vector<int32_t> beginnings_;
  // For each first byte: the place in `sorted_` where its tokens begin.
  std::array<int32_t, 257> first_byte_ = {};
  // True for a length if two different candidates of that length might overlap
  // in some text, so that the order of ids matters.
  std::bitset<kMaxSpecialBytes + 1> may_overlap_;
  // The first two bytes of candidates: [0] user-defined only, [1] all. Text
  // without candidates is cheap because of them.
  std::bitset<65'536> prefixes_[2];
};

// The metadata's ids and settings of single tokens.
struct TokenRoles {
  std::optional<int32_t> bos;
  std::optional<int32_t> unknown;
  bool add_bos = false;
  std::vector<int32_t> end_tokens;  // sorted; they end generation
};

// The values that a tokenizer model implies if a key is absent.
struct TokenRoleDefaults {
  int32_t bos;
  int32_t eos;
  int32_t unknown;
  bool add_bos;
  // True if a default id counts only if that token is a control token. In most
  // vocabularies the defaults of byte-level BPE name an ordinary token.
  bool only_control;
};

// Reads the roles. The end tokens are those of the eos, eot, eom, fim_pad,
// fim_rep and fim_sep keys, and the control tokens with texts that are known to
// end generation, such as <end_of_turn> and <|im_end|>.
// Errors: kInvalidArgument naming the key for an id outside the vocabulary or a
// value of the wrong type.
// Source: GGUF keys tokenizer.ggml.{bos,eos,eot,eom,unknown,fim_*}_token_id and
// tokenizer.ggml.add_bos_token.
absl::StatusOr<TokenRoles> ReadTokenRoles(const planner::GgufHeader& header,
                                          const VocabTable& vocab,
                                          const TokenRoleDefaults& defaults);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_SPECIAL_TOKENS_H_
