// The "llama" tokenizer: SentencePiece vocabularies merged by score, as Gemma 3
// and Llama 2 store them.
#ifndef PLIMSOLL_WORKER_TOKENIZER_SPM_H_
#define PLIMSOLL_WORKER_TOKENIZER_SPM_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf_reader.h"
#include "worker/pair_merge.h"
#include "worker/special_tokens.h"
#include "worker/tokenizer.h"
#include "worker/vocab_table.h"

namespace plimsoll::worker {

// Spaces become U+2581; then the adjacent pair of symbols whose text is the
// token of the highest score is merged, leftmost among equals, until none is.
// What is in no token becomes byte tokens. Immutable, so thread-safe.
class SpmTokenizer final : public Tokenizer {
 public:
  // Errors: kInvalidArgument naming the key that is missing or wrong.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const planner::GgufHeader& header, planner::ByteSource& source);

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, bool parse_special) const override;
  int64_t MemoryBytes() const override;

 private:
  SpmTokenizer(VocabTable vocab, SpecialTokens special, TokenRoles roles,
               bool add_space_prefix);

  void AppendNormal(absl::string_view text, std::string& out) const override;

  void EncodeRaw(absl::string_view text, bool with_space_prefix,
                 PairMerger& merger, std::vector<int32_t>& ids) const;
  void EncodeWord(absl::string_view text, PairMerger& merger,
                  std::vector<int32_t>& ids) const;
  void AppendAsBytes(absl::string_view text, std::vector<int32_t>& ids) const;

  // The id of `text` as merging may produce it: never a control token, so that
  // user text cannot become one. -1 if there is none.
  int32_t FindMergeable(absl::string_view text) const;

  std::optional<int32_t> unknown_;  // for bytes in no token; else dropped
  bool add_space_prefix_;
  std::array<int32_t, 256> byte_ids_;  // of the byte tokens, or -1
  // Bytes that some token has in front of a U+2581 which is not part of the
  // run it begins with. After any other byte no merge reaches across a space,
  // so words can be merged one at a time.
  std::bitset<256> joins_space_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TOKENIZER_SPM_H_
