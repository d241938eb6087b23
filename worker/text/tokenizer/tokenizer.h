// Converts text to token ids and back, by the tables of the model's own file.
#ifndef PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_H_
#define PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_reader.h"
#include "worker/text/stop_counter.h"
#include "worker/text/tokenizer/special_tokens.h"
#include "worker/text/tokenizer/vocab_table.h"

namespace plimsoll::worker {

// Limits for encoding a text.
struct EncodeLimits {
  int64_t max_tokens = std::numeric_limits<int64_t>::max();
  StopCheck stop = NeverStop;  // called now and then
};

// Whether the text of control tokens becomes those tokens.
enum class ParseSpecial { kNo, kYes };
constexpr ParseSpecial ParseSpecialIf(bool is_wanted) {
  return is_wanted ? ParseSpecial::kYes : ParseSpecial::kNo;
}

// Whether control and unknown tokens have a text.
enum class RenderSpecial { kNo, kYes };
constexpr RenderSpecial RenderSpecialIf(bool is_wanted) {
  return is_wanted ? RenderSpecial::kYes : RenderSpecial::kNo;
}

// Immutable after loading, so thread-safe.
class Tokenizer {
 public:
  // Bytes of one Encode call.
  static constexpr int64_t kMaxTextBytes = 16 << 20;

  virtual ~Tokenizer() = default;

  // Token ids of `text`, without BOS. With ParseSpecial::kNo only user-defined
  // tokens are matched, and the text of control tokens stays text. Any bytes
  // are accepted. `stop` is called now and then.
  // Errors: kInvalidArgument beyond kMaxTextBytes; those of `stop`.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              ParseSpecial special,
                                              StopCheck stop = NeverStop) const;

  // Like Encode, with BOS in front if the model's rule requires it (`--raw`,
  // `--special`).
  absl::StatusOr<std::vector<int32_t>> EncodeWithBos(
      absl::string_view text, ParseSpecial special,
      StopCheck stop = NeverStop) const;

  // The next three functions serve to refuse a text that cannot fit before it
  // is tokenised. No token stands for more than longest_span() bytes of text.
  // LeastBytes() counts the bytes of `text` without those that may be dropped.
  int64_t LeastBytes(absl::string_view text) const;
  int64_t longest_span() const { return longest_span_; }
  // Errors: kOutOfRange if any text of `least_bytes` counted bytes has more
  // than `max_tokens` tokens.
  absl::Status CheckFits(int64_t least_bytes, int64_t max_tokens) const;

  // Appends the bytes that token `id` stands for. Ids outside the vocabulary
  // give nothing. The bytes of one token need not be valid UTF-8.
  void AppendBytes(int32_t id, RenderSpecial special, std::string& out) const;

  // The text of a sequence; ill-formed bytes become U+FFFD.
  std::string Decode(std::span<const int32_t> ids, RenderSpecial special) const;
  // Decode that calls `stop` now and then. Errors: those of `stop`.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids,
                                     RenderSpecial special,
                                     StopCheck stop) const;

  // The token whose stored text is exactly `text`, if any.
  std::optional<int32_t> Find(absl::string_view text) const;
  TokenType Type(int32_t id) const { return vocab_.Type(id); }
  virtual int64_t MemoryBytes() const = 0;  // all tables, measured

  int32_t vocab_size() const { return vocab_.size(); }
  std::optional<int32_t> bos() const { return roles_.bos; }
  bool add_bos() const { return roles_.add_bos; }
  // True for tokens that end generation (TokenRoles::end_tokens).
  bool IsEnd(int32_t id) const;
  const std::vector<int32_t>& end_tokens() const { return roles_.end_tokens; }

 protected:
  // All tokenizers have these tables of a file.
  struct Tables {
    VocabTable vocab;
    SpecialTokens special;
    TokenRoles roles;
  };

  explicit Tokenizer(Tables tables);

  // Appends the ids of `text`, which is not longer than kMaxTextBytes.
  virtual absl::Status EncodeTo(absl::string_view text, bool parse_special,
                                StopCounter& stop,
                                std::vector<int32_t>& ids) const = 0;

  // Appends the bytes that a normal token's stored text stands for.
  virtual void AppendNormal(absl::string_view text, std::string& out) const = 0;

  // Prepares LeastBytes; the tables must be loaded. `span` gives, by a token's
  // id, the most bytes of text that the token stands for. `is_kept` tells
  // whether a byte becomes a separate token if no other token contains it.
  template <typename Span, typename IsKept>
  void SetSpans(const Span& span, const IsKept& is_kept) {
    for (int32_t id = 0; id < vocab_size(); ++id) {
      longest_span_ = std::max<int64_t>(longest_span_, span(id));
    }
    for (size_t byte = 0; byte < kept_bytes_.size(); ++byte) {
      kept_bytes_[byte] = is_kept(byte) ? 1 : 0;
    }
  }

  // Memory of the tables below.
  int64_t TableBytes() const;

  VocabTable vocab_;
  SpecialTokens special_;
  TokenRoles roles_;
  bool strip_leading_space_ = false;  // for Decode; add_space_prefix models

 private:
  int64_t longest_span_ = 1;
  std::array<uint8_t, 256> kept_bytes_ = {};  // 1 or 0
};

// Loads the tokenizer that `header` describes, reading its string tables from
// `source`.
// Errors: kUnimplemented naming a tokenizer model or pre-tokenizer that is not
// known; kInvalidArgument naming the key for tables that contradict each other.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const planner::GgufHeader& header, planner::ByteSource& source);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_TOKENIZER_TOKENIZER_H_
