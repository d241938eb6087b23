// Text to token ids and back, by the tables of the model's own file.
#ifndef PLIMSOLL_WORKER_TOKENIZER_H_
#define PLIMSOLL_WORKER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf_reader.h"

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

// Immutable after loading, so thread-safe.
class Tokenizer {
 public:
  static constexpr int64_t kMaxTextBytes = 16 << 20;  // of one Encode call

  virtual ~Tokenizer() = default;

  // Token ids of `text`, without BOS. With `parse_special`, the text of control
  // tokens becomes those tokens; without it only user-defined tokens are
  // matched and control-token text stays text. Any bytes are accepted.
  // Errors: kInvalidArgument beyond kMaxTextBytes.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, bool parse_special) const = 0;

  // The same with BOS in front if the model's rule says so (the rule of
  // `--raw` and `--special`).
  absl::StatusOr<std::vector<int32_t>> EncodeWithBos(absl::string_view text,
                                                     bool parse_special) const;

  // Appends the bytes that token `id` stands for. Control and unknown tokens
  // give nothing unless `render_special`. Ids outside the vocabulary give
  // nothing. The bytes of one token need not be valid UTF-8.
  virtual void AppendBytes(int32_t id, bool render_special,
                           std::string& out) const = 0;

  // The text of a sequence (ill-formed bytes become U+FFFD).
  std::string Decode(std::span<const int32_t> ids, bool render_special) const;

  // The token whose stored text is exactly `text`, if any.
  virtual std::optional<int32_t> Find(absl::string_view text) const = 0;
  virtual TokenType Type(int32_t id) const = 0;
  virtual int64_t MemoryBytes() const = 0;  // of all tables, measured

  int32_t vocab_size() const { return vocab_size_; }
  std::optional<int32_t> bos() const { return bos_; }
  bool add_bos() const { return add_bos_; }
  // True for tokens that end generation (MODELS.md 4.7).
  bool IsEnd(int32_t id) const;
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }

 protected:
  int32_t vocab_size_ = 0;
  std::optional<int32_t> bos_;
  bool add_bos_ = false;
  bool strip_leading_space_ = false;  // add_space_prefix models, in Decode
  std::vector<int32_t> end_tokens_;   // sorted
};

// Loads the tokenizer that `header` describes, reading its string tables from
// `source`.
// Errors: kUnimplemented naming a tokenizer model or pre-tokenizer that we do
// not know; kInvalidArgument naming the key for tables that contradict each
// other.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const planner::GgufHeader& header, planner::ByteSource& source);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TOKENIZER_H_
