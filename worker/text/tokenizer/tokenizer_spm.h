// The "llama" tokenizer: SentencePiece vocabularies merged by score, as Gemma 3
// and Llama 2 store them.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_SPM_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_SPM_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "worker/text/tokenizer/byte_pairs.h"
#include "worker/text/tokenizer/front_lengths.h"
#include "worker/text/tokenizer/hash_filter.h"
#include "worker/text/tokenizer/pair_merge.h"
#include "worker/text/tokenizer/special_tokens.h"
#include "worker/text/tokenizer/tokenizer.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::worker {

// Spaces become U+2581. Then the adjacent pair of symbols whose text is the
// token of the highest score is merged, leftmost among equals, until no pair is
// a token. Symbols that are no token become byte tokens. Immutable, so
// thread-safe.
class SpmTokenizer final : public Tokenizer {
 public:
  // Loads the tokenizer. Errors: kInvalidArgument naming the key that is
  // missing or wrong.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const planner::GgufHeader& header, planner::ByteSource& source);

  int64_t MemoryBytes() const override;

 private:
  SpmTokenizer(Tables tables, bool add_space_prefix);

  // The memory that one call needs beside the text.
  struct Scratch;
  // The rules by which the characters of a fragment are merged, and a cache of
  // rules.
  class Rules;
  class RuleCache;

  absl::Status EncodeTo(absl::string_view text, bool parse_special,
                        StopCounter& stop,
                        std::vector<int32_t>& ids) const override;
  void AppendNormal(absl::string_view text, std::string& out) const override;

  absl::Status EncodeRaw(absl::string_view text, bool with_space_prefix,
                         Scratch& scratch, std::vector<int32_t>& ids) const;
  // Encodes a fragment of a text; no merge reaches beyond it.
  absl::Status EncodeFragment(absl::string_view text, Scratch& scratch,
                              std::vector<int32_t>& ids) const;
  void AppendAsBytes(absl::string_view text, std::vector<int32_t>& ids) const;

  // The id of `text` as merging may produce it, or -1. It is never a control
  // token, so that user text cannot become one.
  int32_t FindMergeable(absl::string_view text) const;
  // The mergeable token of one character, or -1.
  int32_t FindChar(absl::string_view c) const;
  // The rule that joins two symbols to `joined`, which has at least two bytes.
  std::optional<MergeRule> FindRule(absl::string_view joined) const;
  // False if `joined` is certainly no token.
  bool MayBeToken(absl::string_view joined) const;
  void IndexJoins(absl::string_view token);
  void IndexSpans();
  // True if a merge may join the text that ends before `at` to the text that
  // begins there.
  bool MayJoin(absl::string_view text, size_t at, bool is_mark,
               bool after_mark) const;

  std::optional<int32_t> unknown_;  // for bytes in no token; absent: dropped
  bool add_space_prefix_;
  std::array<int32_t, 256> byte_ids_;   // ids of the byte tokens, or -1
  std::array<int32_t, 128> ascii_ids_;  // ids of characters, or -1
  // Bytes before a U+2581 inside some token, where this U+2581 is not part of
  // the token's first run of U+2581. After any other byte no merge reaches
  // across a space, so words can be merged one at a time.
  std::bitset<256> joins_space_;
  // Bytes that stand side by side in some token. No merge joins any other pair
  // of bytes.
  BytePairs adjacent_;
  // Lengths of tokens with two bytes or more.
  FrontLengths lengths_;
  HashFilter filter_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_SPM_H_
