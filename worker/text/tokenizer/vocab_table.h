// The vocabulary of a model: token texts, types and scores in flat tables, and
// an index from text to id.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_VOCAB_TABLE_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_VOCAB_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"

namespace plimsoll::worker {

// Source: GGUF key tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Immutable after Load, so thread-safe. Ids given to it must be in [0, size).
class VocabTable {
 public:
  static constexpr int64_t kMaxTokens = 1 << 24;
  static constexpr int64_t kMaxTokenBytes = 4'096;             // one token
  static constexpr int64_t kMaxTableBytes = int64_t{1} << 30;  // all tokens

  // Whether a vocabulary has a score for each token.
  enum class Scores { kNone, kRead };

  // Reads `tokenizer.ggml.tokens`, `.token_type` (absent: all normal) and, if
  // asked for, `.scores`. Among tokens with equal text the index has the
  // one with the lowest id; empty texts are not in the index.
  // Errors: kInvalidArgument naming the key that is missing, too short or holds
  // a value that cannot be used.
  static absl::StatusOr<VocabTable> Load(const planner::GgufHeader& header,
                                         planner::ByteSource& source,
                                         Scores scores);

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  absl::string_view Text(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return absl::string_view(texts_.data() + ends_[i], ends_[i + 1] - ends_[i]);
  }
  TokenType Type(int32_t id) const {
    return static_cast<TokenType>(types_[static_cast<size_t>(id)]);
  }
  float Score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }
  // True for tokens that text becomes only if special text is parsed.
  bool IsControl(int32_t id) const {
    return Type(id) == TokenType::kControl || Type(id) == TokenType::kUnknown;
  }
  // The id of `text`, or -1.
  int32_t Find(absl::string_view text) const;
  int64_t longest_token_bytes() const { return longest_token_bytes_; }
  int64_t MemoryBytes() const;

 private:
  absl::Status LoadTexts(const planner::GgufHeader& header,
                         planner::ByteSource& source);
  absl::Status LoadTypes(const planner::GgufHeader& header,
                         planner::ByteSource& source);
  absl::Status LoadScores(const planner::GgufHeader& header,
                          planner::ByteSource& source);
  void BuildIndex();

  std::vector<char> texts_;      // all texts, one after the other
  std::vector<uint32_t> ends_;   // [size + 1]; text i is [ends_[i], ends_[i+1])
  std::vector<uint8_t> types_;   // [size]
  std::vector<float> scores_;    // [size] or empty
  std::vector<uint32_t> index_;  // open addressing: id, or kFree
  int64_t longest_token_bytes_ = 0;
};

// Puts `key` in front of the message of `status`, unless the message names the
// key already.
absl::Status NameKey(absl::string_view key, const absl::Status& status);

// The byte that a byte token's text `<0xHH>` names, or -1 if `text` has another
// form.
int ParseByteToken(absl::string_view text);

// For each byte, the id of its byte token, or -1.
std::array<int32_t, 256> ByteTokenIds(const VocabTable& vocab);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_VOCAB_TABLE_H_
