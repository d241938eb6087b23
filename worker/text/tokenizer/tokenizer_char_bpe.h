// The "gemma4" tokenizer: BPE with ranked merges over the characters of a text
// whose spaces are marked.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_CHAR_BPE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_CHAR_BPE_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "worker/text/tokenizer/byte_pairs.h"
#include "worker/text/tokenizer/front_lengths.h"
#include "worker/text/tokenizer/hash_filter.h"
#include "worker/text/tokenizer/merge_table.h"
#include "worker/text/tokenizer/special_tokens.h"
#include "worker/text/tokenizer/tokenizer.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::worker {

// Spaces become U+2581. The text is cut at the beginnings and ends of lines; a
// run of newlines that is a token becomes that token. In every other piece
// characters are merged, lowest rank first and leftmost among equals. Symbols
// that are no token become byte tokens. BOS always comes first; the file's
// setting is ignored. Immutable, so thread-safe.
class CharBpeTokenizer final : public Tokenizer {
 public:
  // Loads the tokenizer. Errors: kInvalidArgument naming the key that is
  // missing or wrong.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const planner::GgufHeader& header, planner::ByteSource& source);

  int64_t MemoryBytes() const override;

 private:
  CharBpeTokenizer(Tables tables, MergeTable merges);

  // The memory that one call needs beside the text.
  struct Scratch;
  // The rules by which the characters of a fragment are merged.
  class Rules;

  absl::Status EncodeTo(absl::string_view text, bool parse_special,
                        StopCounter& stop,
                        std::vector<int32_t>& ids) const override;
  void AppendNormal(absl::string_view text, std::string& out) const override;

  // Encodes one piece: a run of newlines, or the text between two runs.
  absl::Status EncodePiece(absl::string_view piece, Scratch& scratch,
                           std::vector<int32_t>& ids) const;
  // Encodes a fragment of a piece; no merge reaches beyond it.
  absl::Status EncodeFragment(absl::string_view fragment, Scratch& scratch,
                              std::vector<int32_t>& ids) const;
  void AppendAsBytes(absl::string_view text, std::vector<int32_t>& ids) const;

  // The id of `text` as merging may produce it, or -1. It is never a control
  // token, so that user text cannot become one.
  int32_t FindMergeable(absl::string_view text) const;
  // True if a merge may join the text that ends before `at` to the text that
  // begins there.
  bool MayJoin(absl::string_view text, size_t at) const;
  void IndexMerge(absl::string_view left, absl::string_view right);

  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_;  // ids of the byte tokens, or -1
  // The last byte of a merge's left token and the first byte of its right
  // token, for all merges whose right token does not begin with U+2581. For
  // the others, only the last byte of the left token. No merge joins any other
  // pair of bytes.
  BytePairs joined_;
  std::bitset<256> joins_mark_;
  // Lengths of the right tokens of merges that have two bytes or more.
  FrontLengths right_lengths_;
  HashFilter right_filter_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_CHAR_BPE_H_
