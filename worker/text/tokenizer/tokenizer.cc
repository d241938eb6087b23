// The parts that all tokenizers share, and the choice among tokenizers.
#include "worker/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/text/tokenizer/tokenizer_bpe.h"
#include "worker/text/tokenizer/tokenizer_char_bpe.h"
#include "worker/text/tokenizer/tokenizer_spm.h"
#include "worker/text/utf8.h"

namespace plimsoll::worker {

Tokenizer::Tokenizer(Tables tables)
    : vocab_(std::move(tables.vocab)),
      special_(std::move(tables.special)),
      roles_(std::move(tables.roles)) {}

void Tokenizer::AppendBytes(int32_t id, RenderSpecial special,
                            std::string& out) const {
  if (id < 0 || id >= vocab_size()) return;
  const absl::string_view text = vocab_.Text(id);
  switch (vocab_.Type(id)) {
    case TokenType::kNormal:
      AppendNormal(text, out);
      return;
    case TokenType::kUserDefined:
      out.append(text.data(), text.size());
      return;
    case TokenType::kByte:
      out.push_back(static_cast<char>(ParseByteToken(text)));
      return;
    case TokenType::kControl:
    case TokenType::kUnknown:
      if (special == RenderSpecial::kYes) out.append(text.data(), text.size());
      return;
    case TokenType::kUnused:
      return;
  }
}

std::optional<int32_t> Tokenizer::Find(absl::string_view text) const {
  const int32_t id = vocab_.Find(text);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

int64_t Tokenizer::TableBytes() const {
  return vocab_.MemoryBytes() + special_.MemoryBytes() +
         static_cast<int64_t>(roles_.end_tokens.capacity() * sizeof(int32_t));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text,
                                                       ParseSpecial special,
                                                       StopCheck stop) const {
  if (static_cast<int64_t>(text.size()) > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a text of ", text.size(),
                                                   " bytes is longer than ",
                                                   kMaxTextBytes, " bytes"));
  }
  std::vector<int32_t> ids;
  StopCounter counter(stop);
  RETURN_IF_ERROR(EncodeTo(text, special == ParseSpecial::kYes, counter, ids));
  return ids;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeWithBos(
    absl::string_view text, ParseSpecial special, StopCheck stop) const {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, Encode(text, special, stop));
  if (roles_.add_bos && roles_.bos) ids.insert(ids.begin(), *roles_.bos);
  return ids;
}

int64_t Tokenizer::LeastBytes(absl::string_view text) const {
  int64_t n_kept = 0;
  for (const char c : text) n_kept += kept_bytes_[static_cast<uint8_t>(c)];
  return n_kept;
}

absl::Status Tokenizer::CheckFits(int64_t least_bytes,
                                  int64_t max_tokens) const {
  const int64_t least =
      least_bytes / longest_span_ + (least_bytes % longest_span_ > 0 ? 1 : 0);
  if (least <= max_tokens) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "the prompt has ", least_bytes, " bytes, which are at least ", least,
      " tokens, the context of a slot ", max_tokens,
      ": shorten the prompt, load the model with a larger n_ctx, or let the "
      "context roll"));
}

std::string Tokenizer::Decode(std::span<const int32_t> ids,
                              RenderSpecial special) const {
  return *Decode(ids, special, NeverStop);
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const int32_t> ids,
                                              RenderSpecial special,
                                              StopCheck stop) const {
  StopCounter counter(stop);
  std::string text;
  std::string one;
  Utf8Stream stream;
  bool strip_space = strip_leading_space_;
  for (size_t i = 0; i < ids.size(); ++i) {
    one.clear();
    AppendBytes(ids[i], special, one);
    RETURN_IF_ERROR(counter.Spend(1 + static_cast<int64_t>(one.size())));
    absl::string_view bytes = one;
    // The space that Encode put in front of the text stands after BOS.
    const bool is_bos = i == 0 && ids[0] == roles_.bos;
    if (strip_space && !is_bos && !bytes.empty()) {
      if (bytes[0] == ' ') bytes.remove_prefix(1);
      strip_space = false;
    }
    stream.Push(bytes, text);
  }
  text += stream.Finish();
  return text;
}

bool Tokenizer::IsEnd(int32_t id) const {
  return std::binary_search(roles_.end_tokens.begin(), roles_.end_tokens.end(),
                            id);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const planner::GgufHeader& header, planner::ByteSource& source) {
  const auto key = header.String("tokenizer.ggml.model");
  if (!key.ok()) return key.status();
  const std::optional<std::string>& model = *key;
  if (!model) {
    return absl::InvalidArgumentError("tokenizer.ggml.model is missing");
  }
  if (*model == "llama") return SpmTokenizer::Load(header, source);
  if (*model == "gpt2") return BpeTokenizer::Load(header, source);
  if (*model == "gemma4") return CharBpeTokenizer::Load(header, source);
  absl::string_view kind;
  if (*model == "t5") kind = " (unigram)";
  if (*model == "bert") kind = " (WordPiece)";
  if (*model == "rwkv") kind = " (a trie)";
  return absl::UnimplementedError(absl::StrCat(
      "tokenizer.ggml.model is '", *model, "'", kind,
      ", a tokenizer that this build does not have; it has gemma4, gpt2 "
      "(byte-level BPE) and llama (SentencePiece BPE): choose a model with one "
      "of these"));
}

}  // namespace plimsoll::worker
