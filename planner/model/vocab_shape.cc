#include "planner/model/vocab_shape.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/gguf/gguf_stream.h"

namespace plimsoll::planner {
namespace {

constexpr absl::string_view kPrefix = "tokenizer.ggml.";
constexpr absl::string_view kCountedModel = "plimsoll.vocab.model";
// A header within its limits never counts more bytes of strings.
constexpr int64_t kMaxCountedBytes = int64_t{1} << 40;

// The spelling "seperator" is the GGUF specification's.
constexpr std::array<absl::string_view, 14> kSpecialIds = {
    "bos_token_id",     "eos_token_id",       "eot_token_id",
    "eom_token_id",     "unknown_token_id",   "padding_token_id",
    "mask_token_id",    "seperator_token_id", "fim_pre_token_id",
    "fim_suf_token_id", "fim_mid_token_id",   "fim_pad_token_id",
    "fim_rep_token_id", "fim_sep_token_id"};

absl::StatusOr<const GgufArray*> StringArray(const GgufHeader& header,
                                             const std::string& key) {
  ASSIGN_OR_RETURN(const GgufArray* array, header.Array(key));
  if (array == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" is missing"));
  }
  if (array->element_type != GgufType::kString) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" is not an array of strings"));
  }
  return array;
}

// Checks an array beside the tokens: it has one of these types and is long
// enough.
absl::Status CheckCompanion(const GgufHeader& header, const std::string& key,
                            std::initializer_list<GgufType> types,
                            int64_t n_tokens) {
  ASSIGN_OR_RETURN(const GgufArray* array, header.Array(key));
  if (array == nullptr) return absl::OkStatus();
  if (std::find(types.begin(), types.end(), array->element_type) ==
      types.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" has elements of a wrong type"));
  }
  if (array->n >= n_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("metadata \"", key, "\" has ", array->n,
                   " elements for a vocabulary of ", n_tokens, " tokens"));
}

absl::Status CheckSpecialIds(const GgufHeader& header, int64_t n_tokens) {
  for (absl::string_view name : kSpecialIds) {
    const std::string key = absl::StrCat(kPrefix, name);
    ASSIGN_OR_RETURN(const auto id, header.Int(key));
    if (!id || (*id >= 0 && *id < n_tokens)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key, "\" is ", *id,
                     ", which is no token of a vocabulary of ", n_tokens));
  }
  return absl::OkStatus();
}

// Reads the counts of a header that came without its tokenizer, under
// plimsoll.vocab.*: {model, n_tokens, token_bytes, n_merges, merge_bytes}.
absl::StatusOr<VocabShape> ReadVocabCounts(const GgufHeader& header) {
  VocabShape vocab;
  ASSIGN_OR_RETURN(const auto model, header.String(kCountedModel));
  vocab.model = model.value_or("");
  struct Count {
    absl::string_view key;
    int64_t* count;
    int64_t limit;
  };
  for (const auto& [name, count, limit] :
       {Count{"n_tokens", &vocab.n_tokens, ModelShape::kMaxVocab},
        Count{"token_bytes", &vocab.token_bytes, kMaxCountedBytes},
        Count{"n_merges", &vocab.n_merges, GgufHeader::kMaxArrayElements},
        Count{"merge_bytes", &vocab.merge_bytes, kMaxCountedBytes}}) {
    const std::string key = absl::StrCat("plimsoll.vocab.", name);
    ASSIGN_OR_RETURN(const auto value, header.Int(key));
    if (!value || *value < 0 || *value > limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "metadata \"", key, "\" is missing or not in 0 to ", limit));
    }
    *count = *value;
  }
  return vocab;
}

}  // namespace

absl::StatusOr<VocabShape> ReadVocabShape(const GgufHeader& header) {
  const auto key = [](absl::string_view name) {
    return absl::StrCat(kPrefix, name);
  };
  ASSIGN_OR_RETURN(const auto model, header.String(key("model")));
  if (!model && header.metadata.contains(kCountedModel)) {
    return ReadVocabCounts(header);
  }
  if (!model) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key("model"), "\" is missing"));
  }
  VocabShape vocab;
  vocab.model = *model;
  if (*model == "no_vocab" || *model == "none") {
    vocab.model = "no_vocab";
    return vocab;
  }
  const bool has_merges = *model == "gemma4" || *model == "gpt2";
  if (*model != "llama" && !has_merges) {
    return absl::UnimplementedError(absl::StrCat(
        key("model"), " ", Quoted(*model),
        " is not supported (gemma4, gpt2, llama and no_vocab are)"));
  }
  ASSIGN_OR_RETURN(const GgufArray* tokens, StringArray(header, key("tokens")));
  if (tokens->n < 1 || tokens->n > ModelShape::kMaxVocab) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", key("tokens"), "\" has ", tokens->n,
                     " tokens, not 1 to ", ModelShape::kMaxVocab));
  }
  vocab.n_tokens = tokens->n;
  vocab.token_bytes = tokens->bytes - 8 * tokens->n;
  RETURN_IF_ERROR(
      CheckCompanion(header, key("scores"), {GgufType::kF32}, vocab.n_tokens));
  RETURN_IF_ERROR(CheckCompanion(header, key("token_type"),
                                 {GgufType::kI32, GgufType::kU32},
                                 vocab.n_tokens));
  RETURN_IF_ERROR(CheckSpecialIds(header, vocab.n_tokens));
  if (has_merges) {
    ASSIGN_OR_RETURN(const GgufArray* merges,
                     StringArray(header, key("merges")));
    vocab.n_merges = merges->n;
    vocab.merge_bytes = merges->bytes - 8 * merges->n;
  }
  return vocab;
}

}  // namespace plimsoll::planner
