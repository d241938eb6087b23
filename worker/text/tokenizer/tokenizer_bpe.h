// The "gpt2" tokenizer: byte-level BPE with ranked merges.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_BPE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_BPE_H_

#include <array>
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
#include "worker/text/tokenizer/pretokenizer.h"
#include "worker/text/tokenizer/special_tokens.h"
#include "worker/text/tokenizer/tokenizer.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::worker {

// The pre-tokenizer cuts the text. Within a piece, bytes are merged, lowest
// rank first and leftmost among equals. Bytes that the vocabulary lacks are
// dropped. Immutable, so thread-safe.
class BpeTokenizer final : public Tokenizer {
 public:
  // Loads the tokenizer. Errors: kUnimplemented naming an unknown
  // pre-tokenizer; kInvalidArgument naming the key that is missing or wrong.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const planner::GgufHeader& header, planner::ByteSource& source);

  int64_t MemoryBytes() const override;

 private:
  BpeTokenizer(Tables tables, PreTokenizer pretokenizer, MergeTable merges);

  // The memory that one call needs beside the text.
  struct Scratch;
  // The rules by which the bytes of a fragment are merged.
  class Rules;

  absl::Status EncodeTo(absl::string_view text, bool parse_special,
                        StopCounter& stop,
                        std::vector<int32_t>& ids) const override;
  void AppendNormal(absl::string_view text, std::string& out) const override;

  // The token that is the whole of `piece`, or -1.
  int32_t FindWhole(absl::string_view piece, std::string& mapped) const;
  absl::Status EncodePiece(absl::string_view piece, Scratch& scratch,
                           std::vector<int32_t>& ids) const;
  // Encodes a piece of several bytes: as one token if the vocabulary's rules
  // allow it, else fragment by fragment.
  absl::Status EncodeFragments(absl::string_view piece, Scratch& scratch,
                               std::vector<int32_t>& ids) const;
  // Encodes a fragment of a piece; no merge reaches beyond it.
  absl::Status EncodeFragment(absl::string_view fragment, Scratch& scratch,
                              std::vector<int32_t>& ids) const;

  PreTokenizer pretokenizer_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_;  // ids of single bytes, or -1
  // The last byte of a merge's left token and the first byte of its right
  // token, for all merges. No merge joins any other pair of bytes, so a piece
  // can be cut between them.
  BytePairs joined_;
  // Lengths of the right tokens of merges that have two bytes or more.
  FrontLengths right_lengths_;
  HashFilter right_filter_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_BPE_H_
