// A tokenizer as a GGUF file has it, from the JSON files of a checkpoint.
#ifndef PLIMSOLL_SERVICES_CONVERT_TOKENIZER_TABLES_H_
#define PLIMSOLL_SERVICES_CONVERT_TOKENIZER_TABLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_writer.h"

namespace plimsoll::services {

inline constexpr int64_t kMaxTokenizerBytes = 64 << 20;
inline constexpr int64_t kMaxTokenizerConfigBytes = 8 << 20;

// The files, as text. Only `tokenizer` must not be empty.
struct TokenizerFiles {
  std::string tokenizer;        // tokenizer.json
  std::string config = {};      // tokenizer_config.json
  std::string generation = {};  // generation_config.json
  std::string chat = {};        // chat_template.jinja
};

// The values of the keys `tokenizer.*`.
struct TokenizerTables {
  std::string model;                 // "gpt2" or "llama"
  std::string pre;                   // the pre-tokenizer's name
  std::vector<std::string> tokens;   // [rows of the embedding]
  std::vector<int32_t> types;        // [tokens]
  std::vector<float> scores;         // [tokens] for "llama", else empty
  std::vector<std::string> merges;   // for "gpt2"
  std::optional<bool> space_prefix;  // for "llama"
  std::optional<uint32_t> bos;
  std::optional<uint32_t> unknown;
  std::optional<uint32_t> padding;
  // The tokens that end a reply, the usual one first. A file can name three.
  std::vector<uint32_t> ends;
  bool adds_bos = false;
  std::string chat_template;  // may be empty
};

// Reads the tokenizer of a model whose embedding has `n_rows` rows. Rows
// without a token get an unused token. Byte-level BPE becomes the model "gpt2",
// and BPE with a token for each byte, as SentencePiece makes it, "llama".
// `pre` names the pre-tokenizer of byte-level BPE; if it is empty, the name
// follows from the file's expressions.
// Errors: kInvalidArgument naming the file and the fault; kUnimplemented naming
// a feature that GGUF files or this build lack, and a remedy.
absl::StatusOr<TokenizerTables> ReadTokenizerTables(const TokenizerFiles& files,
                                                    int64_t n_rows,
                                                    const std::string& pre);

// Writes the keys `tokenizer.*`.
void WriteTokenizer(const TokenizerTables& tables, planner::GgufWriter& out);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_CONVERT_TOKENIZER_TABLES_H_
