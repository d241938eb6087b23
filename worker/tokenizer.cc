// What all tokenizers share, and the choice among them.
#include "worker/tokenizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/tokenizer_bpe.h"
#include "worker/tokenizer_spm.h"
#include "worker/utf8.h"

namespace plimsoll::worker {

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeWithBos(
    absl::string_view text, bool parse_special) const {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, Encode(text, parse_special));
  if (add_bos_ && bos_) ids.insert(ids.begin(), *bos_);
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids,
                              bool render_special) const {
  std::string bytes;
  bool strip_space = strip_leading_space_;
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t begin = bytes.size();
    AppendBytes(ids[i], render_special, bytes);
    // The space that Encode put in front of the text stands after BOS.
    const bool is_bos = i == 0 && bos_ && ids[0] == *bos_;
    if (!strip_space || is_bos || bytes.size() == begin) continue;
    if (bytes[begin] == ' ') bytes.erase(begin, 1);
    strip_space = false;
  }
  Utf8Stream stream;
  std::string text = stream.Push(bytes);
  return text + stream.Finish();
}

bool Tokenizer::IsEnd(int32_t id) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id);
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
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.ggml.model is '", *model,
                   "'; the tokenizers known are llama and gpt2"));
}

}  // namespace plimsoll::worker
